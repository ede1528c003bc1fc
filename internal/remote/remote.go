// Package remote opens and writes files on this machine or on object storage (s3://, gs://, azblob://, and file:// to
// stand in for it). The drivers for object storage need the build tag cloud (make cloud); a program without them
// refuses such names.
//
// An object is read in ranges, each with retries, and an object that changes meanwhile is an error. A written object
// appears at once when it is complete, or not at all. Credentials come from the environment variables and files of
// the clouds' own tools.
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

// schemes are the URL schemes of names on object storage.
var schemes = []string{"s3", "gs", "azblob", "file"}

// ErrNotBuilt is the error for all names on object storage in a program without the build tag cloud.
var ErrNotBuilt = errors.New("this program was built without object storage: use the one built by make cloud")

// Is reports whether a name is the name of an object, scheme://bucket/key. The text after the bucket is the key as it
// is, without escapes.
func Is(name string) bool {
	scheme, _, ok := strings.Cut(name, "://")
	return ok && slices.Contains(schemes, strings.ToLower(scheme))
}

// split splits a name into its bucket, with the scheme, and its key. The bucket of file:// is the entire file system.
func split(name string) (bucket, key string, err error) {
	scheme, rest, _ := strings.Cut(name, "://")
	host, key, _ := strings.Cut(rest, "/")
	if small := strings.ToLower(scheme); small != scheme {
		return "", "", fmt.Errorf("%s: write %s:// in lower case", name, small)
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
		return "", "", fmt.Errorf("%s: its key is not a path: it has empty, . or .. segments", name)
	}
	return scheme + "://" + host, key, nil
}

// Join joins a folder and a relative path. An absolute path, or a name on object storage, is returned as it is.
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

// Dir returns the folder of a name.
func Dir(name string) string {
	if !Is(name) {
		return filepath.Dir(name)
	}
	scheme, rest, _ := strings.Cut(name, "://")
	return scheme + "://" + strings.TrimSuffix(rest[:strings.LastIndexByte(rest, '/')+1], "/")
}

// Abs returns a name that does not depend on the working directory.
func Abs(name string) (string, error) {
	if Is(name) {
		return name, nil
	}
	return filepath.Abs(name)
}

// Info is the metadata of an object.
type Info struct {
	Size    int64
	ModTime time.Time // by the clock of the storage
	Version string    // changes with the object; "": unknown

	generation int64 // Google's generation number; 0: unknown
}

// same reports whether two responses are about the same state of an object. Some responses have times only in
// seconds, and an object may change twice within one.
func (i Info) same(o Info) bool {
	if i.generation != 0 && o.generation != 0 {
		return i.generation == o.generation && i.Size == o.Size
	}
	if i.Version != "" && o.Version != "" && i.Version != o.Version {
		return false
	}
	return i.Size == o.Size && i.ModTime.Truncate(time.Second).Equal(o.ModTime.Truncate(time.Second))
}

// Range is a part of an object, with the metadata of the object.
type Range struct {
	Bytes []byte
	Info  Info // with Version if the response has it
}

// driver is a bucket of object storage. It returns errors of this package, and does not retry.
type driver interface {
	stat(ctx context.Context, key string) (Info, error)
	read(ctx context.Context, key string, from, most int64) (Range, error)
	write(ctx context.Context, key string, o writing) error
	remove(ctx context.Context, key string) error
}

// buckets are the open buckets, by scheme://bucket. They are never closed.
var buckets = struct {
	sync.Mutex
	open map[string]driver
}{open: map[string]driver{}}

// locate returns the bucket and the key of a name.
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

// Stat returns the metadata of an object.
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

// CheckOutput returns an error if the bucket, the credentials or the storage of an output are missing, which would
// otherwise only be noticed after all the work. Credentials that may write may not be permitted to read, so a denied
// request is not an error.
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
