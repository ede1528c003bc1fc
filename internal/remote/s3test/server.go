//go:build cloud

// Package s3test starts an S3 server for tests.
package s3test

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// Launch starts the server in an environment variable (a command line with {port} and {folder}), and returns its port
// and its output. The test is skipped if the variable is not set.
func Launch(t *testing.T, variable string) (port string, log *bytes.Buffer) {
	t.Helper()
	command := os.Getenv(variable)
	if command == "" {
		t.Skipf("SKIPPED: %s is not set: this object storage was NOT tested (tools/cloud.sh)", variable)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ = net.SplitHostPort(l.Addr().String())
	l.Close()
	words := strings.Fields(strings.NewReplacer("{port}", port, "{folder}", t.TempDir()).Replace(command))
	server := exec.Command(words[0], words[1:]...)
	log = &bytes.Buffer{}
	server.Stdout, server.Stderr = log, log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	return port, log
}

// Start starts the server in ASSAY_TEST_S3 (a command line with {port} and {folder}; tools/cloud.sh chooses one),
// creates a bucket, and sets AWS's variables to it for the test. The test is skipped if the variable is not set.
func Start(t *testing.T, bucket string) (client *s3.Client, endpoint string) {
	t.Helper()
	port, log := Launch(t, "ASSAY_TEST_S3")
	endpoint = "http://127.0.0.1:" + port
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": endpoint, "AWS_REGION": "us-east-1",
		"AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "testersecret"} {
		t.Setenv(name, value)
	}
	cfg, err := config.LoadDefaultConfig(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	client = s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = true })
	for range 300 {
		if _, err = client.CreateBucket(context.Background(), &s3.CreateBucketInput{Bucket: &bucket}); err == nil {
			return client, endpoint
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("%v: %s", err, log.String())
	return nil, ""
}

// Between puts a proxy between the server at endpoint and its clients: serve answers a request, or passes it on to
// behind.
func Between(t *testing.T, endpoint string, serve func(w http.ResponseWriter, r *http.Request, behind http.Handler)) {
	t.Helper()
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	behind := httputil.NewSingleHostReverseProxy(target)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(w, r, behind) }))
	t.Cleanup(proxy.Close)
	t.Setenv("AWS_ENDPOINT_URL", proxy.URL)
}

// Put copies files into a folder of the bucket.
func Put(t *testing.T, client *s3.Client, bucket, folder string, files ...string) {
	t.Helper()
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err == nil {
			key := path.Join(folder, filepath.Base(file))
			object := &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: bytes.NewReader(raw)}
			_, err = client.PutObject(context.Background(), object)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
