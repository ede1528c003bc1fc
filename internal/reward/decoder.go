package reward

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"assay/data"
	"assay/edit"
	"assay/internal/reward/pace"
	"assay/internal/reward/pictures"
	"assay/internal/workers"
	"assay/ort"
)

// encodedPicture is an encoded picture. In JSON it is base64, with or without the prefix of a data URL. Invalid
// base64 is an error of one item, not of the request.
type encodedPicture struct {
	raw    []byte
	err    error
	digest *[sha256.Size]byte // of raw; nil: see sum
}

// sum returns the digest of the encoded picture. The first call must not be concurrent with others.
func (b *encodedPicture) sum() [sha256.Size]byte {
	if b.digest == nil {
		digest := sha256.Sum256(b.raw)
		b.digest = &digest
	}
	return *b.digest
}

// MarshalJSONTo writes the picture's digest, for the digest of a request.
func (b *encodedPicture) MarshalJSONTo(e *jsontext.Encoder) error {
	return e.WriteToken(jsontext.String(fmt.Sprintf("%x %v", b.sum(), b.err)))
}

// UnmarshalJSONFrom decodes base64 from the stream, so that only one picture at a time is held as text.
func (b *encodedPicture) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	value, err := d.ReadValue()
	if err != nil {
		return err
	}
	if value.Kind() != '"' {
		b.err = badPicture("a picture must be a base64 string")
		return nil
	}
	text := []byte(value[1 : len(value)-1])
	if bytes.IndexByte(text, '\\') >= 0 {
		if text, err = jsontext.AppendUnquote(nil, value); err != nil {
			return err
		}
	}
	if bytes.HasPrefix(text, []byte("data:")) {
		if head, rest, ok := bytes.Cut(text, []byte(",")); ok && bytes.HasSuffix(head, []byte(";base64")) {
			text = rest
		}
	}
	raw := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(raw, text)
	if err != nil {
		b.err = badPicture("a picture must be base64, not a URL or a path: %v", err)
		return nil
	}
	b.raw = raw[:n]
	return nil
}

// decoder decodes pictures, as many at a time as there are CPU cores, and measures the time.
type decoder struct {
	limits data.Limits
	free   chan struct{}   // one entry for each picture that is being decoded
	time   *pace.Estimator // of decoding and preparing
	cache  *pictures.Cache
	took   func(time.Duration) // called with the decoding time of each picture
}

// size returns the number of pixels according to the picture's header, without decoding it.
func (d *decoder) size(b *encodedPicture) (pixels int64, err error) {
	if b.err != nil {
		return 0, b.err
	}
	width, height, err := data.Size(b.raw, d.limits)
	if err != nil && !errors.Is(err, data.ErrLimit) {
		err = badPicture("%v", err)
	}
	return int64(width) * int64(height), err
}

// pixels is size for a picture that was checked before.
func (d *decoder) pixels(b *encodedPicture) int64 {
	n, _ := d.size(b)
	return n
}

// maxSources limits the sources of an edit. In total they may have at most four times the pixel limit of one picture.
const maxSources = 16

// check validates sources and instruction without decoding, and returns the total pixels of the sources. Without
// needed there may be no source.
func (d *decoder) check(sources []*encodedPicture, instruction string, needed bool) (pixels int64, err error) {
	if err := checkInstruction(instruction); err != nil {
		return 0, err
	}
	switch {
	case len(sources) == 0 && needed:
		return 0, badRequest("source is missing: a picture")
	case len(sources) > maxSources:
		return 0, tooMany("%d sources, at most %d are allowed", len(sources), maxSources)
	}
	for i, source := range sources {
		own, err := d.size(source)
		if err != nil {
			return 0, prefixError(sourceName(i, len(sources)), err)
		}
		if pixels += own; pixels > 4*d.limits.MaxPixels {
			return 0, apiErrorf(http.StatusRequestEntityTooLarge, "too_large", "the sources have more than %d pixels in total",
				4*d.limits.MaxPixels)
		}
	}
	return pixels, nil
}

// sourceName returns the name of one of n sources for errors.
func sourceName(i, n int) string {
	if n == 1 {
		return "source"
	}
	return fmt.Sprintf("sources/%d", i)
}

// maxInstruction is the maximum length of an instruction in bytes.
const maxInstruction = 8 << 10

func checkInstruction(text string) error {
	if strings.TrimSpace(text) == "" {
		return badRequest("instruction is missing: what the edit should do")
	}
	if len(text) > maxInstruction {
		return badRequest("instruction: %d bytes, at most %d are allowed", len(text), maxInstruction)
	}
	return nil
}

// decode decodes a picture whose size was checked, unless it is in the cache.
func (d *decoder) decode(ctx context.Context, b *encodedPicture) (p *data.Picture, cached bool, err error) {
	p, cached, err = d.cache.Get(ctx, b.sum(), func() (*data.Picture, error) {
		begin := time.Now()
		defer func() { d.took(time.Since(begin)) }()
		return data.DecodeContext(ctx, b.raw, d.limits)
	})
	if _, panicked := err.(*panicError); err != nil && !panicked && ctx.Err() == nil {
		err = badPicture("%v", err)
	}
	return p, cached, err
}

// keyedPicture is a decoded picture with the digest of its encoded bytes. A scorer that has cached features for this
// key does not prepare the picture again.
type keyedPicture struct {
	*data.Picture
	key string
}

// Key implements [edit.Keyed].
func (p keyedPicture) Key() string { return p.key }

// keyed returns a decoded picture in the form that scorers get.
func (b *encodedPicture) keyed(p *data.Picture) edit.Picture {
	sum := b.sum()
	return keyedPicture{p, string(sum[:])}
}

// sources decodes the sources of a group, each as soon as a decoder is free.
func (d *decoder) sources(ctx context.Context, r *reservation, g *group) (pictures []edit.Picture, err error) {
	for i, b := range g.sources {
		err := d.timed(ctx, r, d.pixels(b), func() (cached bool, err error) {
			p, cached, err := d.decode(ctx, b)
			pictures = append(pictures, b.keyed(p))
			return cached, err
		})
		if err != nil {
			return nil, prefixError(sourceName(i, len(g.sources)), err)
		}
	}
	return pictures, nil
}

// each decodes edits of a group in parallel and calls use for each of their items. It keeps no picture. Errors are
// set on the items.
func (d *decoder) each(ctx context.Context, r *reservation, edits []*groupEdit,
	use func(it *item, output *data.Picture) error) {
	workers.Each(len(edits), cap(d.free), func(i int) error {
		e := edits[i]
		err := d.timed(ctx, r, e.pixels, func() (cached bool, err error) {
			output, cached, err := d.decode(ctx, e.items[0].output)
			if err != nil {
				return cached, err
			}
			for _, it := range e.items {
				it.err = asBadEdit(use(it, output))
			}
			return cached, nil
		})
		if err != nil {
			e.fail(err)
		}
		return nil
	})
}

// asBadEdit attributes an error to the edit unless it is the runtime's or already an apiError.
func asBadEdit(err error) error {
	if err == nil || errors.As(err, new(*apiError)) || errors.As(err, new(*ort.Error)) {
		return err
	}
	return apiErrorf(http.StatusUnprocessableEntity, "bad_pair", "%v", err)
}

// timed runs f as soon as a decoder is free and measures its time, unless f reports that its picture was cached. A
// panic is an error of this picture.
func (d *decoder) timed(ctx context.Context, r *reservation, pixels int64, f func() (cached bool, err error)) error {
	defer r.decoded(d.time, pixels)
	select {
	case d.free <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	begin := time.Now()
	cached := false
	err := attempt(func() (err error) {
		cached, err = f()
		return err
	})
	<-d.free
	if err == nil && !cached {
		d.time.ObserveFastest(pace.Kilopixels(pixels), time.Since(begin)/time.Duration(cap(d.free)))
	}
	return err
}
