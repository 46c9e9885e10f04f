"""Hours of random Prod load beside Mid pods on a real kubelet, with suppression and eviction on."""
