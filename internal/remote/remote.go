// Package remote opens and writes files wherever they lie: on this machine, or on object storage (s3://, gs://,
// azblob://, and file:// in its place). The drivers of object storage are behind the build tag cloud (make cloud);
// a program without them refuses such names.
//
// An object is read in ranges, each asked for again where that may help, and an object that changed meanwhile is an
// error. One that is written appears at once when it is complete, or not at all. Credentials are those that the clouds'
// own tools use: their environment variables and files.
package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// schemes are the beginnings of names on object storage, each with what a bucket is called there.
var schemes = []string{"s3", "gs", "azblob", "file"}

// ErrNotBuilt is the error of all names on object storage in a program without the build tag cloud.
var ErrNotBuilt = errors.New("this program was built without object storage: use the one that make cloud builds")

// Is reports whether a name is that of an object: scheme://bucket/key. What stands behind the bucket is the key as it
// is, without any escapes.
func Is(name string) bool {
	scheme, _, ok := strings.Cut(name, "://")
	return ok && slices.Contains(schemes, strings.ToLower(scheme))
}

// split cuts a name into its bucket, with the scheme, and its key. The bucket of file:// is the whole file system.
func split(name string) (bucket, key string, err error) {
	scheme, rest, _ := strings.Cut(name, "://")
	host, key, _ := strings.Cut(rest, "/")
	if small := strings.ToLower(scheme); small != scheme {
		return "", "", fmt.Errorf("%s: write %s:// in small letters", name, small)
	}
	if scheme == "file" {
		if host != "" {
			return "", "", fmt.Errorf("%s: want file:///folder/file, with three slashes", name)
		}
	} else if host == "" || strings.ContainsAny(host, "?#@") {
		return "", "", fmt.Errorf("%s: want %s://bucket/key", name, scheme)
	}
	if key == "" || strings.HasSuffix(key, "/") {
		return "", "", fmt.Errorf("%s: names a folder, want an object", name)
	}
	if key != path.Clean(key) || strings.HasPrefix(key, "../") || strings.HasPrefix(key, "/") {
		return "", "", fmt.Errorf("%s: its key is not a path: there is //, . or .. in it", name)
	}
	return scheme + "://" + host, key, nil
}

// Join puts a relative path behind a folder; one that is absolute, or a name on object storage, stays as it is.
func Join(folder, name string) string {
	switch {
	case Is(name) || filepath.IsAbs(name):
		return name
	case !Is(folder):
		return filepath.Join(folder, name)
	}
	scheme, rest, _ := strings.Cut(folder, "://")
	host, key, _ := strings.Cut(rest, "/")
	return scheme + "://" + host + "/" + path.Join(key, filepath.ToSlash(name))
}

// Dir is the folder of a name.
func Dir(name string) string {
	if !Is(name) {
		return filepath.Dir(name)
	}
	scheme, rest, _ := strings.Cut(name, "://")
	return scheme + "://" + strings.TrimSuffix(rest[:strings.LastIndexByte(rest, '/')+1], "/")
}

// Abs is a name that does not depend on the working directory.
func Abs(name string) (string, error) {
	if Is(name) {
		return name, nil
	}
	return filepath.Abs(name)
}

// Info is what is known of an object without reading it.
type Info struct {
	Size    int64
	ModTime time.Time // by the clock of the storage
	Version string    // another one when the object changed; "": not known

	generation int64 // Google's number of what was written; 0: not known
}

// same tells whether two answers are of the same object. Some answers tell times in seconds alone, in which it may have
// changed twice.
func (i Info) same(o Info) bool {
	if i.generation != 0 && o.generation != 0 {
		return i.generation == o.generation && i.Size == o.Size
	}
	if i.Version != "" && o.Version != "" && i.Version != o.Version {
		return false
	}
	return i.Size == o.Size && i.ModTime.Truncate(time.Second).Equal(o.ModTime.Truncate(time.Second))
}

// Range is a part of an object, with what is known of the whole.
type Range struct {
	Bytes []byte
	Info  Info // with Version where a range tells it
}

// driver is a bucket of object storage. Its errors are of this package, and not tried again.
type driver interface {
	stat(ctx context.Context, key string) (Info, error)
	read(ctx context.Context, key string, from, most int64) (Range, error)
	write(ctx context.Context, key string, o writing) error
	remove(ctx context.Context, key string) error
}

// buckets that are open, by scheme://bucket; they stay so.
var buckets = struct {
	sync.Mutex
	open map[string]driver
}{open: map[string]driver{}}

// locate finds the bucket and the key of a name.
func locate(ctx context.Context, name string) (driver, string, error) {
	bucket, key, err := split(name)
	if err != nil {
		return nil, "", err
	}
	buckets.Lock()
	defer buckets.Unlock()
	if b := buckets.open[bucket]; b != nil {
		return b, key, nil
	}
	b, err := openBucket(ctx, bucket)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	buckets.open[bucket] = b
	return b, key, nil
}

// Stat says what is known of an object.
func Stat(ctx context.Context, name string) (info Info, err error) {
	b, key, err := locate(ctx, name)
	if err != nil {
		return info, err
	}
	err = retry(ctx, "reading", name, func(ctx context.Context) (err error) {
		info, err = b.stat(ctx, key)
		return err
	})
	return info, err
}

// CheckOutput refuses the name of an object whose bucket, credentials or storage are not there, which would else be
// noticed once all is computed. Who may write may have no right to read: a request that is denied says nothing.
func CheckOutput(ctx context.Context, name string) error {
	_, err := Stat(ctx, name)
	var e *Error
	if errors.As(err, &e) {
		if e.kind == missing || e.kind == forbidden {
			return nil
		}
		e.Doing = "before writing"
	}
	return err
}

// Remove removes an object, which may be missing, or a file.
func Remove(ctx context.Context, name string) error {
	if !Is(name) {
		return os.Remove(name)
	}
	b, key, err := locate(ctx, name)
	if err != nil {
		return err
	}
	err = retry(ctx, "removing", name, func(ctx context.Context) error { return b.remove(ctx, key) })
	if IsMissing(err) {
		return nil
	}
	return err
}
