"""How close to the page cache are large samples read? 4 MB each, as bytes."""

import lab

if __name__ == "__main__":
    lab.answer(__doc__, ["blobs"])
