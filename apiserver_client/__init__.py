"""The only package that opens a connection to the kube-apiserver: credentials, objects, watches, one error family.

It hides the HTTP library, its exceptions and the parser of kubeconfig files. Objects travel as JSON and are decoded
straight into the type the caller asks for. What an object means, and whether to try again, is the caller's business.
"""
