// The Prometheus operator, whose definitions of kinds are in its module.
module kubeshare.example/operator

go 1.24.0

require github.com/prometheus-operator/prometheus-operator v0.85.0
