package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	atOnce     = 8           // files fetched in parallel, as by huggingface_hub
	spare      = 100_000_000 // bytes to leave free on the disk
	incomplete = ".incomplete"
)

// download completes the blobs of files.
func (h *Hub) download(ctx context.Context, n Name, commit string, files []File) (err error) {
	p := &Plan{Name: n, Commit: commit, Endpoint: h.shown, Folder: h.folder(n)}
	var todo []File
	seen := map[string]bool{}
	for _, f := range files {
		if seen[f.Digest] || has(h.blob(n, f.Digest), f.Size) {
			continue
		}
		seen[f.Digest] = true
		todo = append(todo, f)
		p.Files, p.Bytes = p.Files+1, p.Bytes+f.Size
		if info, err := os.Stat(h.blob(n, f.Digest) + incomplete); err == nil {
			p.Present += min(info.Size(), f.Size)
		}
	}
	if len(todo) == 0 {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(h.folder(n), "blobs"), 0o777); err != nil {
		return err
	}
	h.tag()
	if err := h.room(p); err != nil {
		return err
	}
	if h.Monitor.Begin != nil {
		h.Monitor.Begin(p)
	}
	if h.Monitor.End != nil {
		defer func() { h.Monitor.End(p, err) }()
	}
	var done atomic.Int64
	stop := h.watch(&done, p.Bytes)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, f := range todo {
		group.Go(func() error { return h.fetchBlob(ctx, n, commit, f, &done) })
	}
	return group.Wait()
}

// watch reports the number of fetched bytes to the monitor, until stop is called.
func (h *Hub) watch(done *atomic.Int64, total int64) (stop func()) {
	if h.Monitor.Bytes == nil {
		return func() {}
	}
	end := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		for ticker := time.NewTicker(200 * time.Millisecond); ; {
			h.Monitor.Bytes(done.Load(), total)
			select {
			case <-ticker.C:
			case <-end:
				ticker.Stop()
				h.Monitor.Bytes(done.Load(), total)
				return
			}
		}
	})
	return func() {
		close(end)
		ended.Wait()
	}
}

// room returns an error if the disk has no space for a fetch.
func (h *Hub) room(p *Plan) error {
	var s syscall.Statfs_t
	if syscall.Statfs(p.Folder, &s) != nil {
		return nil
	}
	free, wanted := int64(s.Bavail)*int64(s.Bsize), p.Bytes-p.Present
	if wanted > spare && free < wanted+spare {
		return &Error{Name: p.Name, text: fmt.Sprintf("%s are to be fetched into %s, which has %s free: free some "+
			"space, or set HF_HUB_CACHE to another folder", Size(wanted), h.Cache, Size(free))}
	}
	return nil
}

// fetchBlob completes a blob, unless another process does. Its bytes are counted in done.
func (h *Hub) fetchBlob(ctx context.Context, n Name, commit string, f File, done *atomic.Int64) error {
	lock, err := h.lock(ctx, n, f.Digest)
	if err != nil {
		return err
	}
	defer lock.Close()
	blob := h.blob(n, f.Digest)
	if has(blob, f.Size) {
		done.Add(f.Size)
		return nil
	}
	part, err := os.OpenFile(blob+incomplete, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	defer part.Close()
	b := &blobFile{file: part, f: f, done: done}
	if err := b.resume(); err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		resumed := b.size > 0
		if err := h.fill(ctx, n, commit, b); err != nil {
			return err
		}
		if hex.EncodeToString(b.sum.Sum(nil)) == f.Digest {
			break
		}
		said := b.pointer()
		if err := b.restart(); err != nil {
			return err
		}
		if !resumed || attempt > 1 {
			os.Remove(part.Name())
			return &Error{Name: n, passes: true, text: fmt.Sprintf("%s: the data sent by %s does not match the digest %s%s",
				f.Path, h.shown, f.Digest, said)}
		}
	}
	if err := part.Sync(); err != nil {
		return err
	}
	return os.Rename(part.Name(), blob)
}

// fill appends to a blob until it has its full size. A broken connection is replaced as long as there is progress.
func (h *Hub) fill(ctx context.Context, n Name, commit string, b *blobFile) error {
	segments := strings.Split(b.f.Path, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	base := h.Endpoint + "/"
	if n.Kind == Dataset {
		base += "datasets/"
	}
	address := base + n.Repo + "/resolve/" + commit + "/" + strings.Join(segments, "/")
	best := b.size
	for failed := 0; b.size < b.f.Size || b.f.Size == 0; {
		err := h.receive(ctx, n, commit, address, b)
		var local *os.PathError
		switch {
		case err == nil && b.f.Size == 0, ctx.Err() != nil, errors.As(err, &local):
			return errors.Join(ctx.Err(), err)
		case err == nil && b.size == b.f.Size:
			return nil
		}
		var e *Error
		if errors.As(err, &e) {
			return err
		}
		if b.size > best { // a file that starts over has made no progress
			best, failed = b.size, 0
		}
		if failed++; failed == attempts {
			return &Error{Name: n, passes: true, cause: err,
				text: fmt.Sprintf("%s: the connection to %s broke at byte %d of %d: "+
					"%v (the same command resumes)", b.f.Path, h.shown, b.size, b.f.Size, err)}
		}
		if err := h.sleep(ctx, time.Duration(failed)*time.Second); err != nil {
			return err
		}
	}
	return nil
}

// receive appends the rest of a file, until the connection ends.
func (h *Hub) receive(ctx context.Context, n Name, commit, address string, b *blobFile) error {
	span := ""
	if b.size > 0 {
		span = fmt.Sprintf("bytes=%d-", b.size)
	}
	answer, first, err := h.ask(ctx, n, address, span)
	var refused *Error
	if errors.As(err, &refused) {
		refused.text = b.f.Path + ": " + refused.text
	}
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if err := sameVersion(n, commit, b.f, first); err != nil {
		return err
	}
	starts := fmt.Sprintf("bytes %d-", b.size)
	if answer.StatusCode == http.StatusOK && b.size > 0 ||
		answer.StatusCode == http.StatusPartialContent && !strings.HasPrefix(answer.Header.Get("Content-Range"), starts) ||
		answer.StatusCode == http.StatusRequestedRangeNotSatisfiable {
		if err := b.restart(); err != nil {
			return err
		}
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("the server did not send the range %q", span)
		}
	}
	_, err = io.Copy(b, io.LimitReader(answer.Body, b.f.Size-b.size+1))
	if b.size > b.f.Size {
		return &Error{Name: n, text: fmt.Sprintf("%s: %s sent more than its %d bytes", b.f.Path, h.shown, b.f.Size)}
	}
	if err == nil && b.size < b.f.Size {
		if said := b.pointer(); said != "" {
			return &Error{Name: n, text: b.f.Path + said}
		}
		return io.ErrUnexpectedEOF
	}
	return err
}

// sameVersion compares the headers of a file with the list of files.
func sameVersion(n Name, commit string, f File, header http.Header) error {
	tag := strings.Trim(strings.TrimPrefix(header.Get("X-Linked-Etag"), "W/"), `"`)
	if len(tag) != len(f.Digest) { // not one of the two digests
		tag = ""
	}
	for _, c := range [][2]string{
		{header.Get("X-Repo-Commit"), commit}, {tag, f.Digest}, {header.Get("X-Linked-Size"), fmt.Sprint(f.Size)},
	} {
		if c[0] != "" && c[0] != c[1] {
			return &Error{Name: n, text: fmt.Sprintf("%s: got another version, %s instead of %s", f.Path, c[0], c[1])}
		}
	}
	return nil
}

// blobFile is an incomplete blob, with the digest of its bytes so far.
type blobFile struct {
	file *os.File
	f    File
	size int64
	sum  hash.Hash
	done *atomic.Int64
}

// resume reads the partial file of an interrupted fetch.
func (b *blobFile) resume() error {
	info, err := b.file.Stat()
	if err != nil {
		return err
	}
	if err := b.reset(); err != nil || info.Size() == 0 {
		return err
	}
	if info.Size() > b.f.Size {
		return b.restart()
	}
	n, err := io.Copy(b.sum, b.file)
	b.size = n
	b.done.Add(n)
	return err
}

// reset restarts the digest: SHA-256 of the content, or SHA-1 of git's header and the content.
func (b *blobFile) reset() error {
	if b.sum = sha256.New(); len(b.f.Digest) == 40 {
		b.sum = sha1.New()
		fmt.Fprintf(b.sum, "blob %d\x00", b.f.Size)
	}
	b.done.Add(-b.size)
	b.size = 0
	_, err := b.file.Seek(0, io.SeekStart)
	return err
}

func (b *blobFile) restart() error { return errors.Join(b.file.Truncate(0), b.reset()) }

func (b *blobFile) Write(p []byte) (int, error) {
	n, err := b.file.Write(p)
	b.sum.Write(p[:n])
	b.size += int64(n)
	b.done.Add(int64(n))
	return n, err
}

// pointer returns a note if a blob is a Git LFS pointer, else "".
func (b *blobFile) pointer() string {
	start := make([]byte, len("version https://git-lfs"))
	if n, _ := b.file.ReadAt(start, 0); string(start[:n]) == "version https://git-lfs" {
		return ": it is a Git LFS pointer instead of the file"
	}
	return ""
}
