"""Types of the slo-controller-config ConfigMap: document, layers, presets, advice."""
