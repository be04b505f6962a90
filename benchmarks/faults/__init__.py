"""What is lost, changed or left behind when something dies under a traced run."""
