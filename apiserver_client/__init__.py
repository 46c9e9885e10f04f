"""Connect to the kube-apiserver: credentials, objects, watches, one family of errors.

No other package opens such a connection. The HTTP library, its exceptions and the parser of kubeconfig files stay
hidden. Objects travel as JSON and are decoded directly into the type of the caller. Callers interpret objects and
decide about retries.
"""
