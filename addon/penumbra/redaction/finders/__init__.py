"""What finds secrets in a text: each reports spans."""
