"""Reading traces of torch.profiler: files to columns, and the pages made of them."""
