package mlflow

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
)

// Settings are the server that a run is sent to, and the credentials.
type Settings struct {
	server     *url.URL
	experiment string // by name; "": by experimentID
	experimentID,
	runID, runName string
	tags      map[string]string
	username  string
	password  string
	token     string
	artifacts bool // files are sent as well
	client    *http.Client

	timeout  time.Duration // for the response to a request
	interval time.Duration // between polls of the event file; the first wait after a failure
	longest  time.Duration // the longest wait after failures
	patience time.Duration // at the end of a run, without any progress
}

// Interval is the time between polls of the event file, and the first wait after a failure. Tests shorten it.
var Interval = 2 * time.Second

// FromEnvironment reads the environment variables of MLflow's client and of transformers' MLflowCallback.
func FromEnvironment() (*Settings, error) {
	address := os.Getenv("MLFLOW_TRACKING_URI")
	server, err := url.Parse(address)
	if err != nil || server.Host == "" || server.Scheme != "http" && server.Scheme != "https" {
		if err == nil && server.User != nil {
			address = server.Redacted()
		}
		return nil, fmt.Errorf("report_to: mlflow: MLFLOW_TRACKING_URI is %q: want the URL of a tracking server, such as "+
			"http://127.0.0.1:5000 (`mlflow server` starts one)", address)
	}
	s := &Settings{server: server, experiment: os.Getenv("MLFLOW_EXPERIMENT_NAME"),
		experimentID: os.Getenv("MLFLOW_EXPERIMENT_ID"), runID: os.Getenv("MLFLOW_RUN_ID"),
		runName: os.Getenv("MLFLOW_RUN_NAME"), username: os.Getenv("MLFLOW_TRACKING_USERNAME"),
		password: os.Getenv("MLFLOW_TRACKING_PASSWORD"), token: os.Getenv("MLFLOW_TRACKING_TOKEN"),
		artifacts: true, timeout: 2 * time.Minute, interval: Interval, longest: time.Minute,
		patience: 30 * time.Second}
	if s.experiment == "" && s.experimentID == "" {
		s.experiment = "Default"
	}
	if text := os.Getenv("MLFLOW_TAGS"); text != "" {
		if err := json.Unmarshal([]byte(text), &s.tags); err != nil {
			return nil, fmt.Errorf("report_to: mlflow: MLFLOW_TAGS: want a JSON object of strings: %w", err)
		}
	}
	if text := os.Getenv("MLFLOW_HTTP_REQUEST_TIMEOUT"); text != "" {
		seconds, err := strconv.Atoi(text)
		if err != nil || seconds < 1 {
			return nil, fmt.Errorf("report_to: mlflow: MLFLOW_HTTP_REQUEST_TIMEOUT: want seconds, not %q", text)
		}
		s.timeout = time.Duration(seconds) * time.Second
	}
	if text := os.Getenv("HF_MLFLOW_LOG_ARTIFACTS"); text != "" {
		s.artifacts = yes(text)
	}
	s.client, err = newClient()
	return s, err
}

// yes parses a boolean as transformers does.
func yes(text string) bool {
	switch strings.ToUpper(text) {
	case "1", "ON", "YES", "TRUE":
		return true
	}
	return false
}

// newClient creates an HTTP client that trusts the certificates named by MLflow's variables.
func newClient() (*http.Client, error) {
	c := &tls.Config{InsecureSkipVerify: yes(os.Getenv("MLFLOW_TRACKING_INSECURE_TLS"))}
	if path := os.Getenv("MLFLOW_TRACKING_SERVER_CERT_PATH"); path != "" {
		pem, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("report_to: mlflow: MLFLOW_TRACKING_SERVER_CERT_PATH: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("report_to: mlflow: MLFLOW_TRACKING_SERVER_CERT_PATH: %s has no certificate", path)
		}
	}
	return &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: c,
		ForceAttemptHTTP2: true, IdleConnTimeout: 3 * time.Second}}, nil // uvicorn closes after 5 s
}

// authorize adds credentials to requests to the server, but not to other hosts.
func (s *Settings) authorize(r *http.Request) {
	switch {
	case r.URL.Host != s.server.Host || r.URL.Scheme != s.server.Scheme:
	case s.username != "" && s.password != "":
		r.SetBasicAuth(s.username, s.password)
	case s.token != "":
		r.Header.Set("Authorization", "Bearer "+s.token)
	case s.server.User != nil:
		password, _ := s.server.User.Password()
		r.SetBasicAuth(s.server.User.Username(), password)
	}
}

// address returns the URL of a resource of the server, below the path of the server URL.
func (s *Settings) address(resource string) *url.URL {
	return &url.URL{Scheme: s.server.Scheme, Host: s.server.Host, Path: path.Join("/", s.server.Path, resource)}
}

// artifactRoot returns the URL below which a run's files are uploaded, from its artifact_uri; nil: not through a
// tracking server.
func (s *Settings) artifactRoot(uri string) *url.URL {
	u, err := url.Parse(uri)
	if err != nil {
		return nil
	}
	switch u.Scheme {
	case "http", "https":
		return u
	case "mlflow-artifacts":
		root := s.address("/api/2.0/mlflow-artifacts/artifacts" + u.Path)
		if u.Host != "" {
			root.Host = u.Host
		}
		return root
	}
	return nil
}
