//go:build cloud

package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"

	"assay/internal/remote/s3test"
)

// TestGS and TestAzure test gs:// and azblob:// against third-party servers.
func TestGS(t *testing.T) {
	port, log := s3test.Launch(t, "ASSAY_TEST_GS")
	t.Setenv("STORAGE_EMULATOR_HOST", "127.0.0.1:"+port)
	ready(t, log, func() error {
		r, err := http.Post("http://127.0.0.1:"+port+"/storage/v1/b?project=test", "application/json",
			strings.NewReader(`{"name": "edits"}`))
		if err != nil {
			return err
		}
		defer r.Body.Close()
		if r.StatusCode != http.StatusOK {
			return fmt.Errorf("%s", r.Status)
		}
		return nil
	})
	conform(t, "gs://edits")
}

func TestAzure(t *testing.T) {
	port, log := s3test.Launch(t, "ASSAY_TEST_AZURE")
	const key = "dGVzdGVyc2VjcmV0" // key of the server that tools/cloud.sh starts
	for name, value := range map[string]string{"AZURE_STORAGE_ACCOUNT": "tester", "AZURE_STORAGE_KEY": key,
		"AZURE_STORAGE_DOMAIN": "127.0.0.1:" + port, "AZURE_STORAGE_PROTOCOL": "http",
		"AZURE_STORAGE_IS_LOCAL_EMULATOR": "true"} {
		t.Setenv(name, value)
	}
	as, err := azblob.NewSharedKeyCredential("tester", key)
	if err != nil {
		t.Fatal(err)
	}
	client, err := azblob.NewClientWithSharedKeyCredential("http://127.0.0.1:"+port+"/tester", as, nil)
	if err != nil {
		t.Fatal(err)
	}
	ready(t, log, func() error {
		_, err := client.CreateContainer(context.Background(), "edits", nil)
		return err
	})
	conform(t, "azblob://edits")
}

// ready waits until a server creates a bucket.
func ready(t *testing.T, log *bytes.Buffer, bucket func() error) {
	t.Helper()
	var err error
	for range 300 {
		if err = bucket(); err == nil {
			closeBuckets()
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("got %v, want the server ready: %s", err, log)
}

// conform tests the guarantees of every bucket: complete objects or none, ranges, and claims of which exactly one
// wins.
func conform(t *testing.T, bucket string) {
	t.Helper()
	ctx := context.Background()
	for key, size := range map[string]int{"empty": 0, "a b+c?ä.parquet": 3000, "parts/large": 2*partBytes + 12345} {
		want := pattern(size)
		if err := Write(ctx, bucket+"/"+key, fill(want)); err != nil {
			t.Fatal(err)
		}
		check(t, bucket+"/"+key, want)
	}
	if _, err := Open(ctx, bucket+"/none"); err == nil || !strings.Contains(err.Error(), "there is no such object") {
		t.Errorf("a missing object: got error %v, want one with %q", err, "there is no such object")
	}
	broken := errors.New("broken")
	half := func(w io.Writer) error { return errors.Join(fill(pattern(2*partBytes))(w), broken) }
	if err := Write(ctx, bucket+"/half", half); !errors.Is(err, broken) {
		t.Errorf("a failing write: got error %v, want %v", err, broken)
	}
	if _, err := Stat(ctx, bucket+"/half"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half an object: got error %v, want %v", err, fs.ErrNotExist)
	}
	won := make(chan error, 8)
	for i := range cap(won) {
		go func() { won <- Put(ctx, bucket+"/claim", fmt.Append(nil, "worker ", i), true) }()
	}
	wins := 0
	for range cap(won) {
		if err := <-won; err == nil {
			wins++
		} else if !errors.Is(err, fs.ErrExist) {
			t.Errorf("a lost claim: got error %v, want %v", err, fs.ErrExist)
		}
	}
	if wins != 1 {
		t.Errorf("got %d of %d workers with the claim, want 1", wins, cap(won))
	}
	before, err := Stat(ctx, bucket+"/claim")
	if err != nil || before.Version == "" || time.Since(before.ModTime).Abs() > time.Hour {
		t.Errorf("Stat: got %+v, %v, want a version and the current time", before, err)
	}
	if err := Put(ctx, bucket+"/claim", []byte("renewed"), false); err != nil {
		t.Error(err)
	}
	if after, err := Stat(ctx, bucket+"/claim"); err != nil || after.Version == before.Version {
		t.Errorf("Stat of another object: got %+v, %v, want another version than %s", after, err, before.Version)
	}
	if err := errors.Join(Remove(ctx, bucket+"/claim"), Remove(ctx, bucket+"/claim")); err != nil {
		t.Error(err)
	}
	closeBuckets()
	missing := strings.Replace(bucket, "edits", "nobody", 1) + "/none"
	if _, err := Open(ctx, missing); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("a missing bucket: got error %v, want one with %q", err, "nobody")
	}
}
