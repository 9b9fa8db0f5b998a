import webdataset.codecs as codecs

if not hasattr(codecs, "unpickle_loads"):  # TEMPORARY until the codecs' door is merged
    from webdataset.codecs._pickle import unpickle_loads

    codecs.unpickle_loads = unpickle_loads
