"""The imports between modules of the flow have no circles, even for type annotations."""

from graphlib import TopologicalSorter

import grimp


def test_no_module_of_the_flow_is_known_to_one_that_it_imports() -> None:
    graph = grimp.build_graph("penumbra", cache_dir=None)
    modules = {name for name in graph.modules if name.startswith("penumbra.flow.")}
    assert len(modules) > 20
    imports = {name: graph.find_modules_directly_imported_by(name) & modules for name in modules}
    # The call raises CycleError with the circle.
    assert list(TopologicalSorter(imports).static_order())
