sed 's|\.\./||' examples/label.yaml >label.yaml
