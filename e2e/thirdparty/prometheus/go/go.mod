// The CustomResourceDefinitions of the Prometheus operator, for `operator_crds.py`: downloaded, never built.
module koord-suite.io/e2e/thirdparty/prometheus

go 1.24.0

require github.com/prometheus-operator/prometheus-operator v0.85.0
