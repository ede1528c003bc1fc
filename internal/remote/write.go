package remote

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"assay/internal/atomicfile"
)

// writing describes a write of an object.
type writing struct {
	fill  func(io.Writer) error // writes the bytes
	fresh bool                  // the object must not exist yet
}

// Write writes a file or an object that is complete or as it was before, whenever the process stops. If fill fails or
// ctx ends, the upload is aborted and its parts are removed from the storage. (The parts of a killed process are not:
// configure a bucket rule that removes incomplete uploads.)
func Write(ctx context.Context, name string, fill func(io.Writer) error) error {
	if !Is(name) {
		return atomicfile.Write(name, fill)
	}
	b, key, err := locate(ctx, name)
	if err != nil {
		return err
	}
	defer forget(name)
	buffered := func(w io.Writer) error {
		buffer := bufio.NewWriterSize(w, 1<<20)
		err := fill(buffer)
		if err == nil {
			err = buffer.Flush()
		}
		return err
	}
	return uploadError(name, b.write(ctx, key, writing{fill: buffered}))
}

// uploadError adds the name of the object to an error.
func uploadError(name string, err error) error {
	var e *Error
	if errors.As(err, &e) && e.Name == "" {
		e.Doing, e.Name = "writing", name
		return e
	}
	if err != nil {
		err = fmt.Errorf("writing %s: %w", name, err)
	}
	return err
}

// Put writes a small object, with retries. With fresh the object must not exist: otherwise the error is fs.ErrExist,
// and the object stays as it is.
func Put(ctx context.Context, name string, raw []byte, fresh bool) error {
	b, key, err := locate(ctx, name)
	if err != nil {
		return err
	}
	defer forget(name)
	return retry(ctx, "writing", name, func(ctx context.Context) error {
		return b.write(ctx, key, writing{fresh: fresh, fill: func(w io.Writer) error {
			_, err := io.Copy(w, bytes.NewReader(raw))
			return err
		}})
	})
}

// Local returns a path on this machine for a file that belongs to an output and is appended to while the output is
// computed. It is next to the output if that is a file. Objects cannot be appended to, so for them it is in
// assay/progress in the user's cache folder.
func Local(out, ending string) (string, error) {
	if !Is(out) {
		return out + ending, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("the user's cache folder, for the progress of %s: %w", out, err)
	}
	folder := filepath.Join(cache, "assay", "progress")
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return "", err
	}
	name := strings.NewReplacer("%", "%25", "/", "%2F", ":", "%3A").Replace(out) + ending
	if len(name) > 255 {
		return "", fmt.Errorf("%s: the name is too long for its progress file in %s", out, folder)
	}
	return filepath.Join(folder, name), nil
}
