"""What tests are made of: a stand-in for the providers, mitmdump in a process, agents, streams, texts."""
