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

// writing says what an object becomes.
type writing struct {
	fill  func(io.Writer) error // its bytes
	fresh bool                  // it must not be there yet
}

// Write writes a file or an object that is complete or as it was before, whenever the process stops. An error of fill,
// and the end of ctx, give the upload up: parts that the storage has are removed. (Those of a process that was killed
// are not: a rule of the bucket for incomplete uploads removes them.)
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

// uploadError names the object.
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

// Put writes a small object, as often as it takes. If fresh it must not be there: else the error is fs.ErrExist, and it
// stays as it is.
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

// Local is a path on this machine that belongs to an output, for what grows while it is made. It is beside the output
// if that is a file. Objects cannot grow, so for them it is in assay/progress in the user's cache folder.
func Local(out, ending string) (string, error) {
	if !Is(out) {
		return out + ending, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("the user's cache folder, for what is done of %s: %w", out, err)
	}
	folder := filepath.Join(cache, "assay", "progress")
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return "", err
	}
	name := strings.NewReplacer("%", "%25", "/", "%2F", ":", "%3A").Replace(out) + ending
	if len(name) > 255 {
		return "", fmt.Errorf("%s: a name too long for a file in %s, where what is done is kept", out, folder)
	}
	return filepath.Join(folder, name), nil
}
