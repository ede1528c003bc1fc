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
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"assay/internal/remote/s3test"
)

// TestMain makes the test binary a writer of endless objects, so that it can be killed.
func TestMain(m *testing.M) {
	name := os.Getenv("ASSAY_REMOTE_CHILD")
	if name == "" {
		os.Exit(m.Run())
	}
	err := Write(context.Background(), name, func(w io.Writer) error {
		for part := pattern(partBytes); ; fmt.Println("part") {
			if _, err := w.Write(part); err != nil {
				return err
			}
		}
	})
	fmt.Println(err)
	os.Exit(1)
}

// s3Server starts a server with an empty bucket.
func s3Server(t *testing.T) (client *s3.Client, endpoint string) {
	t.Helper()
	client, endpoint = s3test.Start(t, "edits")
	closeBuckets()
	return client, endpoint
}

// closeBuckets makes the next request open buckets again.
func closeBuckets() {
	buckets.Lock()
	defer buckets.Unlock()
	clear(buckets.open)
}

// unfinished returns the number of uploads whose parts are in the bucket.
func unfinished(t *testing.T, client *s3.Client) int {
	t.Helper()
	bucket := "edits"
	got, err := client.ListMultipartUploads(context.Background(), &s3.ListMultipartUploadsInput{Bucket: &bucket})
	if err != nil {
		t.Fatal(err)
	}
	return len(got.Uploads)
}

func fill(raw []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.Copy(w, bytes.NewReader(raw))
		return err
	}
}

// check reads an object in one piece and in ranges.
func check(t *testing.T, name string, want []byte) {
	t.Helper()
	f, err := Open(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at := len(want) / 3
	part := make([]byte, min(1000, len(want)-at))
	if _, err := f.ReadAt(part, int64(at)); err != nil && len(part) > 0 || !bytes.Equal(part, want[at:at+len(part)]) {
		t.Errorf("%s at %d: got different bytes, %v, want %d", name, at, err, len(part))
	}
	if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes, want %d, %v", name, len(got), len(want), err)
	}
	if got, err := ReadAnew(context.Background(), name, 1<<30); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s in one piece: %d bytes, want %d, %v", name, len(got), len(want), err)
	}
}

func TestS3(t *testing.T) {
	ctx := context.Background()
	client, _ := s3Server(t)
	for name, size := range map[string]int{"s3://edits/empty": 0, "s3://edits/a b+c?ä.parquet": 3000,
		"s3://edits/parts/large": 2*partBytes + 12345} {
		t.Run(name, func(t *testing.T) {
			want := pattern(size)
			if err := Write(ctx, name, fill(want)); err != nil {
				t.Fatal(err)
			}
			check(t, name, want)
		})
	}
	for _, c := range []struct{ name, want string }{
		{"s3://edits/none", "reading s3://edits/none: there is no such object"},
		{"s3://nobody/none", "there is no bucket s3://nobody"},
	} {
		t.Run(c.name, func(t *testing.T) {
			closeBuckets()
			if _, err := Open(ctx, c.name); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got error %v, want one with %q", c.name, err, c.want)
			}
		})
	}
	t.Run("given up", func(t *testing.T) {
		broken := errors.New("broken")
		half := func(w io.Writer) error { return errors.Join(fill(pattern(2*partBytes))(w), broken) }
		if err := Write(ctx, "s3://edits/half", half); !errors.Is(err, broken) {
			t.Errorf("a failing write: got error %v, want %v", err, broken)
		}
		stopped, cancel := context.WithCancel(ctx)
		err := Write(stopped, "s3://edits/half", func(w io.Writer) error {
			err := fill(pattern(2 * partBytes))(w)
			cancel()
			return err
		})
		if !errors.Is(err, context.Canceled) && !Failed(err) {
			t.Errorf("interrupted: got error %v, want %v or a storage failure", err, context.Canceled)
		}
		if _, err := Stat(ctx, "s3://edits/half"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("half an object: got error %v, want %v", err, fs.ErrNotExist)
		}
		if n := unfinished(t, client); n != 0 {
			t.Errorf("got %d uploads left, want none", n)
		}
	})
	t.Run("fresh", func(t *testing.T) {
		if err := Put(ctx, "s3://edits/once", []byte("first"), true); err != nil {
			t.Fatal(err)
		}
		if err := Put(ctx, "s3://edits/once", []byte("second"), true); !errors.Is(err, fs.ErrExist) {
			t.Errorf("the second write: got error %v, want %v", err, fs.ErrExist)
		}
		check(t, "s3://edits/once", []byte("first"))
		if err := errors.Join(Remove(ctx, "s3://edits/once"), Remove(ctx, "s3://edits/once")); err != nil {
			t.Error(err)
		}
	})
	t.Run("killed", func(t *testing.T) {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), "ASSAY_REMOTE_CHILD=s3://edits/killed")
		out, err := child.StdoutPipe()
		if err == nil {
			err = child.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		io.ReadFull(out, make([]byte, len("part\n")*4)) // some parts are uploaded now
		child.Process.Kill()
		child.Wait()
		if _, err := Stat(ctx, "s3://edits/killed"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after a writer was killed: got error %v, want %v", err, fs.ErrNotExist)
		}
		if err := Write(ctx, "s3://edits/killed", fill(pattern(3*partBytes))); err != nil {
			t.Fatal(err)
		}
		check(t, "s3://edits/killed", pattern(3*partBytes)) // the next run's, in spite of parts that are left
	})
}

// TestS3Faults: a server that fails occasionally, and breaks off responses, is not noticed; denied access is reported
// at once.
func TestS3Faults(t *testing.T) {
	_, endpoint := s3Server(t)
	pauseLess(t, 10*time.Millisecond)
	var n, failed atomic.Int64
	denied := atomic.Bool{}
	s3test.Between(t, endpoint, func(w http.ResponseWriter, r *http.Request, behind http.Handler) {
		switch k := n.Add(1); {
		case denied.Load():
			w.WriteHeader(http.StatusForbidden)
		case k%3 == 0:
			failed.Add(1)
			w.WriteHeader([]int{500, 503}[k%2])
		case k%7 == 0 && r.Method == http.MethodGet:
			failed.Add(1)
			behind.ServeHTTP(&shortWriter{ResponseWriter: w, left: 1000}, r)
		default:
			behind.ServeHTTP(w, r)
		}
	})
	closeBuckets()
	want := pattern(2*partBytes + 99)
	if err := Write(context.Background(), "s3://edits/x", fill(want)); err != nil {
		t.Fatal(err)
	}
	check(t, "s3://edits/x", want)
	if failed.Load() < 3 {
		t.Errorf("got %d of %d requests that failed, want at least 3", failed.Load(), n.Load())
	}
	denied.Store(true)
	if _, err := Open(context.Background(), "s3://edits/x"); err == nil ||
		!strings.Contains(err.Error(), "access denied") {
		t.Errorf("Open: got error %v, want one with %q", err, "access denied")
	}
}

// TestS3Expired: an object that is refused after the credentials were valid may exist or not, so it must not be taken
// for one without access, which fails its row. For such an object the message is the same each time.
func TestS3Expired(t *testing.T) {
	_, endpoint := s3Server(t)
	pauseLess(t, 10*time.Millisecond)
	var n, answer atomic.Int64
	var only atomic.Value
	only.Store("")
	s3test.Between(t, endpoint, func(w http.ResponseWriter, r *http.Request, behind http.Handler) {
		if code := int(answer.Load()); code > 0 && strings.HasSuffix(r.URL.Path, only.Load().(string)) {
			w.Header().Set("X-Amz-Request-Id", fmt.Sprint(n.Add(1)))
			w.WriteHeader(code)
			return
		}
		behind.ServeHTTP(w, r)
	})
	closeBuckets()
	ctx := context.Background()
	for _, name := range []string{"s3://edits/a", "s3://edits/b"} {
		if err := Write(ctx, name, fill([]byte("x"))); err != nil {
			t.Fatal(err)
		}
	}
	check(t, "s3://edits/a", []byte("x"))
	only.Store("/b")
	answer.Store(http.StatusForbidden)
	_, first := Stat(ctx, "s3://edits/b")
	_, second := Stat(ctx, "s3://edits/b")
	if first == nil || Failed(first) || !strings.Contains(first.Error(), "access denied") ||
		first.Error() != second.Error() {
		t.Errorf("an object without access: got %v, then %v, want one error twice with %q, no failure of the storage", first,
			second, "access denied")
	}
	only.Store("")
	for _, code := range []int64{http.StatusForbidden, http.StatusBadRequest} {
		answer.Store(code)
		_, statErr := Stat(ctx, "s3://edits/b")
		_, readErr := ReadAnew(ctx, "s3://edits/b", 10)
		for _, err := range []error{statErr, readErr} {
			if !Failed(err) || !strings.Contains(err.Error(), "have the credentials expired?") {
				t.Errorf("%d: got error %v, want a failure with %q", code, err, "have the credentials expired?")
			}
		}
	}
}

// TestS3Replaced: an object that is replaced while it is read is an error, even if the new one has the same size and
// time in seconds.
func TestS3Replaced(t *testing.T) {
	s3Server(t)
	ctx := context.Background()
	old, other := bytes.Repeat([]byte("a"), 2*blockBytes), bytes.Repeat([]byte("b"), 2*blockBytes)
	for range 20 {
		if err := Write(ctx, "s3://edits/x", fill(old)); err != nil {
			t.Fatal(err)
		}
		f, err := Open(ctx, "s3://edits/x")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.ReadAt(make([]byte, 10), 0); err != nil {
			t.Fatal(err)
		}
		if err := Write(ctx, "s3://edits/x", fill(other)); err != nil {
			t.Fatal(err)
		}
		now, err := Stat(ctx, "s3://edits/x")
		if err != nil {
			t.Fatal(err)
		}
		was := f.(*opened).object.info
		if !now.ModTime.Truncate(time.Second).Equal(was.ModTime.Truncate(time.Second)) {
			continue // the next second has started
		}
		if _, err := f.ReadAt(make([]byte, 10), blockBytes); err == nil || !strings.Contains(err.Error(), "changed while") {
			t.Errorf("the second half of another object was read: got error %v, want one with %q", err, "changed while")
		}
		return
	}
	t.Skip("no two writes within a second")
}

// TestS3Ranges: reads in the middle of an object are range requests, and only the blocks around them are transferred.
func TestS3Ranges(t *testing.T) {
	_, endpoint := s3Server(t)
	target, _ := url.Parse(endpoint)
	behind := httputil.NewSingleHostReverseProxy(target)
	var ranged, whole, sent atomic.Int64
	behind.ModifyResponse = func(r *http.Response) error {
		if r.Request.Method == http.MethodGet {
			sent.Add(r.ContentLength)
			if r.StatusCode == http.StatusPartialContent && r.Request.Header.Get("Range") != "" {
				ranged.Add(1)
			} else {
				whole.Add(1)
			}
		}
		return nil
	}
	proxy := httptest.NewServer(behind)
	defer proxy.Close()
	t.Setenv("AWS_ENDPOINT_URL", proxy.URL)
	closeBuckets()
	want := pattern(2*partBytes + 99)
	if err := Write(t.Context(), "s3://edits/ranges", fill(want)); err != nil {
		t.Fatal(err)
	}
	f, err := Open(t.Context(), "s3://edits/ranges")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, at := range []int{len(want) - 8, 5 * blockBytes, 20*blockBytes + 77} {
		t.Run(fmt.Sprint(at), func(t *testing.T) { // a footer, and two row groups
			got := make([]byte, 8)
			if _, err := f.ReadAt(got, int64(at)); err != nil || !bytes.Equal(got, want[at:at+8]) {
				t.Errorf("at %d: got %v, %v, want %v", at, got, err, want[at:at+8])
			}
		})
	}
	if ranged.Load() != 3 || whole.Load() != 0 || sent.Load() > 3*blockBytes {
		t.Errorf("%d range requests, %d full ones; %d of %d bytes were sent", ranged.Load(), whole.Load(), sent.Load(),
			len(want))
	}
}

// shortWriter truncates a body.
type shortWriter struct {
	http.ResponseWriter
	left int
}

func (w *shortWriter) Write(p []byte) (int, error) {
	if len(p) > w.left {
		w.ResponseWriter.Write(p[:w.left])
		panic(http.ErrAbortHandler)
	}
	w.left -= len(p)
	return w.ResponseWriter.Write(p)
}

// TestDrivers: gocloud's file and memory drivers give the same guarantees.
func TestDrivers(t *testing.T) {
	ctx := context.Background()
	schemes = append(schemes, "mem")
	defer func() { schemes = schemes[:len(schemes)-1] }()
	for _, folder := range []string{"file://" + t.TempDir(), "mem://bucket"} {
		name, want := folder+"/sub/x.bin", pattern(3*blockBytes+5)
		if err := Write(ctx, name, fill(want)); err != nil {
			t.Fatal(err)
		}
		check(t, name, want)
		broken := errors.New("broken")
		half := func(w io.Writer) error { return errors.Join(fill(want)(w), broken) }
		if err := Write(ctx, folder+"/sub/half", half); !errors.Is(err, broken) {
			t.Errorf("a failing write: got error %v, want %v", err, broken)
		}
		if _, err := Stat(ctx, folder+"/sub/half"); !IsMissing(err) {
			t.Errorf("half an object: got error %v, want it missing", err)
		}
		if err := Put(ctx, name, []byte("again"), true); !errors.Is(err, fs.ErrExist) {
			t.Errorf("writing over an object: got error %v, want %v", err, fs.ErrExist)
		}
		if err := Remove(ctx, name); err != nil {
			t.Error(err)
		}
	}
}
