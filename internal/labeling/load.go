package labeling

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"assay/data"
	"assay/encoders"
	"assay/internal/atomicfile"
	"assay/internal/labeling/nearcopy"
	"assay/internal/store"
)

// models holds the encoders that measure similarities; either may be nil. Equal inputs must produce equal vectors, so
// a model should be used through a cache.
type models struct {
	Clip, Dino encoders.Encoder
	Store      *store.Store // of measurements, so that each distinct picture is decoded once; nil: none
}

// embedder is an encoder and the embedding that it fills in.
type embedder struct {
	encoders.Encoder
	of func(p *picture) *[]float32
}

// list returns the encoders that are not nil.
func (e models) list() (list []embedder) {
	if e.Clip != nil {
		list = append(list, embedder{e.Clip, func(p *picture) *[]float32 { return &p.clip }})
	}
	if e.Dino != nil {
		list = append(list, embedder{e.Dino, func(p *picture) *[]float32 { return &p.dino }})
	}
	return list
}

// rememberer is an encoder that caches the embeddings of pictures.
type rememberer interface {
	Known(pixels store.Key) []float32
}

// thumbnailKind is the store's name for thumbnails, with the version of their computation.
const thumbnailKind = "look-1"

// loader reads and embeds the pictures of one part. Several workers decode, and one goroutine embeds the decoded
// pictures in batches. No more than two batches and one picture per worker are in memory.
type loader struct {
	ctx      context.Context // ends at the first error that is not a picture's error
	stop     func()
	out      string
	encoders []embedder
	inputs   *inputs
	loaded   *atomic.Int64 // counts pictures

	pictures   *store.Pictures // cached facts about pictures; nil: no cache
	thumbnails *store.Bucket

	known    map[string]*picture // by content, or by path if the content is unknown
	decoders errgroup.Group
	queue    chan *picture // decoded pictures, at most one batch
	embedded chan error    // result of the goroutine that embeds
}

func (m *measurer) newLoader(ctx context.Context, in *inputs) (l *loader, err error) {
	l = &loader{
		out:      m.job.Config.Out,
		encoders: m.encoders.list(),
		inputs:   in,
		loaded:   &m.job.loaded,
		known:    map[string]*picture{},
		queue:    make(chan *picture, max(1, m.job.Config.Encoders.Batch)),
		embedded: make(chan error, 1),
	}
	if kept := m.encoders.Store; kept != nil {
		if l.pictures, err = kept.Pictures(); err == nil {
			l.thumbnails, err = kept.Bucket(thumbnailKind, "")
		}
		if err != nil {
			return nil, err
		}
	}
	l.ctx, l.stop = context.WithCancel(ctx)
	l.decoders.SetLimit(m.workers)
	go func() { l.embedded <- l.embedQueue() }()
	return l, nil
}

// add starts to load a picture and returns its name for of; the picture is ready when wait has returned. A picture
// that was added before is not loaded again: inputs already knows whether anything in the part needs its embedding.
func (l *loader) add(m data.Image, embed bool) data.Image {
	path := m.File("")
	content, ok := l.inputs.files[path]
	if path == "" {
		content, ok = sha256.Sum256(m.Bytes), true
	}
	key := path
	if ok {
		key, embed = string(content[:]), embed || l.inputs.embedded[content]
	}
	embed = embed && len(l.encoders) > 0
	if l.known[key] != nil {
		return data.Image{Path: key}
	}
	s := &picture{}
	l.known[key] = s
	l.decoders.Go(func() (err error) {
		if s.decoded, err = l.load(s, m, embed); err != nil {
			l.stop()
		} else if s.decoded != nil && embed {
			l.queue <- s
		} else {
			s.decoded = nil
		}
		return err
	})
	return data.Image{Path: key}
}

// of returns a picture by the name from add; nil for the zero name.
func (l *loader) of(m data.Image) *picture { return l.known[m.Path] }

// load reads a picture; nil: it is unusable, or everything needed is cached. Its error is not the picture's error,
// which goes into s.err.
func (l *loader) load(s *picture, m data.Image, embed bool) (*data.Picture, error) {
	if s.err = l.ctx.Err(); s.err != nil {
		return nil, nil
	}
	raw, err := m.Read("", data.Limits{})
	content := store.Key(sha256.Sum256(raw))
	if want, ok := l.inputs.files[m.File("")]; err == nil && ok && want != content {
		err = fmt.Errorf("%s: changed while it was read", m.Path)
	}
	if err != nil {
		s.err = err
		return nil, nil
	}
	var p *data.Picture
	if !l.recall(s, content, embed) {
		if p, err = l.prepare(s, m, raw); err != nil {
			s.err = err
			return nil, nil
		}
	}
	if len(m.Bytes) > 0 {
		s.Path, err = keepPicture(l.out, m.Bytes)
	} else {
		s.Path, err = filepath.Rel(l.out, m.Path)
		s.Path = filepath.ToSlash(s.Path)
	}
	l.loaded.Add(1)
	return p, err
}

// recall fills in the cached facts about a content, and reports whether they are everything needed.
func (l *loader) recall(s *picture, content store.Key, embed bool) bool {
	if l.pictures == nil {
		return false
	}
	pixels, ok := l.pictures.Pixels(content)
	if !ok {
		return false
	}
	known := l.thumbnails.Get(pixels)
	if len(known) == 0 {
		return false
	}
	if embed {
		for _, e := range l.encoders {
			r, ok := e.Encoder.(rememberer)
			if !ok {
				return false
			}
			to := e.of(s)
			if *to = r.Known(pixels); *to == nil {
				return false
			}
		}
	}
	s.Pixels, s.Thumbnail = pixelsName(pixels), nearcopy.Thumbnail(known[1:])
	return true
}

// prepare decodes a picture and computes everything that needs no encoder.
func (l *loader) prepare(s *picture, m data.Image, raw []byte) (p *data.Picture, err error) {
	var pixels store.Key
	if l.pictures == nil {
		if p, err = m.Decode("", raw, data.Limits{}); err == nil {
			pixels = p.Digest()
		}
	} else {
		p, _, pixels, err = l.pictures.Decode("", m, raw)
	}
	if err != nil {
		return nil, err
	}
	s.Pixels, s.Thumbnail = pixelsName(pixels), nearcopy.ThumbnailOf(p)
	if l.thumbnails != nil { // after a byte, because a thumbnail may be empty
		l.thumbnails.Remember(pixels, append([]byte{1}, s.Thumbnail...))
	}
	return p, nil
}

// pixelsName is the name in a part of the pixels with that digest.
func pixelsName(digest store.Key) string { return hex.EncodeToString(digest[:16]) }

// embedQueue embeds the pictures in the queue until it is closed. After an error it only drains it.
func (l *loader) embedQueue() (err error) {
	var batch []*picture
	embed := func() {
		if err == nil && len(batch) > 0 {
			if err = l.embed(batch); err != nil {
				l.stop()
			}
		}
		for _, p := range batch {
			p.decoded = nil
		}
		batch = batch[:0]
	}
	for p := range l.queue {
		if batch = append(batch, p); len(batch) == cap(l.queue) {
			embed()
		}
	}
	embed()
	return err
}

// embed runs the encoders on a batch.
func (l *loader) embed(batch []*picture) error {
	n := len(batch)
	pictures := make([]*data.Picture, n)
	for i, p := range batch {
		pictures[i] = p.decoded
	}
	for _, e := range l.encoders {
		vectors, err := e.Images(l.ctx, pictures)
		if err = cmp.Or(l.ctx.Err(), err); err == nil && len(vectors) != n {
			err = fmt.Errorf("an encoder returned %d vectors for %d pictures", len(vectors), n)
		}
		for i := 0; err == nil && i < n; i++ {
			err = finite(vectors[i], batch[i].Path)
		}
		if err != nil {
			return err
		}
		for i, p := range batch {
			*e.of(p) = vectors[i]
		}
	}
	return nil
}

// wait returns when all pictures are ready. Its error is not a picture's error. ctx is the one passed to newLoader.
func (l *loader) wait(ctx context.Context) error {
	defer l.stop()
	err := l.decoders.Wait()
	close(l.queue)
	embedding := <-l.embedded
	return cmp.Or(ctx.Err(), err, embedding)
}

// finite refuses the output of a broken encoder: NaN would be taken for an undefined similarity, which fails an edit.
func finite(vector []float32, of string) error {
	for _, x := range vector {
		if y := float64(x); math.IsNaN(y) || math.IsInf(y, 0) {
			return fmt.Errorf("%s: an encoder returned the embedding %v: its weights are broken, or its precision is too low",
				of, x)
		}
	}
	return nil
}

// keepPicture stores a picture that is inside another file under a name derived from its content, and returns its
// path relative to the output folder.
func keepPicture(out string, raw []byte) (string, error) {
	sum := sha256.Sum256(raw)
	name := hex.EncodeToString(sum[:16])
	kind, ok := strings.CutPrefix(http.DetectContentType(raw), "image/")
	if !ok {
		kind = "bin"
	}
	rel := filepath.Join(picturesFolder, name[:2], name+"."+kind)
	path := filepath.Join(out, rel)
	if info, err := os.Stat(path); err == nil && info.Size() == int64(len(raw)) {
		return filepath.ToSlash(rel), nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return "", err
	}
	return filepath.ToSlash(rel), atomicfile.WriteBytes(path, raw)
}

// openEncoders opens the models that a configuration names, each with the store of embeddings as cache; warn is
// called with problems of the store. closer frees them.
func openEncoders(c EncoderConfig, warn func(string)) (e models, closer func() error, err error) {
	var open []io.Closer
	closeAll := func() (err error) {
		for _, o := range slices.Backward(open) {
			err = cmp.Or(err, o.Close())
		}
		return err
	}
	defer func() {
		if err != nil {
			closeAll() // the first error is returned
		}
	}()
	if c.Clip == "" && c.Dino == "" {
		return e, closeAll, nil
	}
	if e.Store, err = store.Open(c.Cache, store.Options{Limit: int64(c.CacheSize), Warn: warn}); err != nil {
		return e, nil, err
	}
	open = append(open, e.Store)
	for _, model := range []struct {
		kind, path string
		to         *encoders.Encoder
	}{{encoders.CLIP, c.Clip, &e.Clip}, {encoders.DINO, c.Dino, &e.Dino}} {
		if model.path == "" {
			continue
		}
		m, err := encoders.Open(model.path, c.options(model.kind))
		if err != nil {
			return e, nil, err
		}
		open = append(open, m)
		cached, err := encoders.NewCached(m, e.Store)
		if err != nil {
			return e, nil, err
		}
		*model.to = cached
	}
	return e, closeAll, nil
}

func (c *EncoderConfig) options(kind string) encoders.Options {
	return encoders.Options{Device: c.Device, Threads: c.Threads, Batch: c.Batch, Kind: kind}
}
