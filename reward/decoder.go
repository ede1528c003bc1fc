package reward

import (
	"assay/data"
	"assay/internal/workers"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// encodedPicture is the bytes of a picture file. In JSON it is base64, with or without the head of a data URL. Damaged
// base64 is the error of one item, not of the request.
type encodedPicture struct {
	raw []byte
	err error
}

// UnmarshalJSONFrom takes a base64 string out of the stream, so that only one picture at a time is held as text.
func (b *encodedPicture) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	value, err := d.ReadValue()
	if err != nil {
		return err
	}
	if value.Kind() != '"' {
		b.err = apiErrorf(http.StatusUnprocessableEntity, "bad_picture", "a picture is a base64 string")
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
		b.err = apiErrorf(http.StatusUnprocessableEntity, "bad_picture",
			"a picture is base64, not a URL or a path: %v", err)
		return nil
	}
	b.raw = raw[:n]
	return nil
}

// decoder decodes pictures, as many at a time as there are cores, and observes how long that takes.
type decoder struct {
	limits data.Limits
	free   chan struct{} // one entry for each picture that is being decoded
	time   *estimator    // of decoding and preparing
}

func newDecoder(l data.Limits) *decoder {
	return &decoder{l, make(chan struct{}, runtime.NumCPU()), &estimator{pixels: true}}
}

// size returns the number of pixels that the picture's header says; nothing is decoded.
func (d *decoder) size(b *encodedPicture) (pixels int64, err error) {
	if b.err != nil {
		return 0, b.err
	}
	width, height, err := data.Size(b.raw, d.limits)
	if err != nil && !errors.Is(err, data.ErrLimit) {
		err = apiErrorf(http.StatusUnprocessableEntity, "bad_picture", "%v", err)
	}
	return int64(width) * int64(height), err
}

// check finds what is wrong with a source and an instruction without decoding a picture, and returns the source's
// pixels.
func (d *decoder) check(source *encodedPicture, instruction string) (pixels int64, err error) {
	if err := checkInstruction(instruction); err != nil {
		return 0, err
	}
	if source == nil {
		return 0, apiErrorf(http.StatusUnprocessableEntity, "bad_request", "source is missing: a picture")
	}
	if pixels, err = d.size(source); err != nil {
		return 0, prefixError("source", err)
	}
	return pixels, nil
}

// decode decodes a picture whose size was checked.
func (d *decoder) decode(ctx context.Context, b *encodedPicture) (*data.Picture, error) {
	p, err := data.DecodeContext(ctx, b.raw, d.limits)
	if err != nil && ctx.Err() == nil {
		err = apiErrorf(http.StatusUnprocessableEntity, "bad_picture", "%v", err)
	}
	return p, err
}

// one decodes a picture once a decoder is free.
func (d *decoder) one(
	ctx context.Context, r *reservation, b *encodedPicture, pixels int64,
) (p *data.Picture, err error) {
	err = d.timed(ctx, r, pixels, func() (err error) {
		p, err = d.decode(ctx, b)
		return err
	})
	return p, err
}

// each decodes edits of a source, several at a time, and calls use with each of their items. It keeps no picture
// itself. An error is kept in the items that it is about.
func (d *decoder) each(ctx context.Context, r *reservation, source *data.Picture, edits []*edited,
	use func(it *item, output *data.Picture) error) {
	workers.Each(len(edits), cap(d.free), func(i int) error {
		e := edits[i]
		err := d.timed(ctx, r, e.pixels, func() (err error) {
			output := source
			if !e.source {
				if output, err = d.decode(ctx, e.items[0].output); err != nil {
					return err
				}
			}
			for _, it := range e.items {
				it.err = asBadEdit(use(it, output))
			}
			return nil
		})
		if err != nil {
			e.fail(err)
		}
		return nil
	})
}

// asBadEdit says that an error, if it is not the server's, is that of the edit.
func asBadEdit(err error) error {
	var f *apiError
	if err == nil || errors.As(err, &f) {
		return err
	}
	return apiErrorf(http.StatusUnprocessableEntity, "bad_pair", "%v", err)
}

// timed runs f once a decoder is free, and observes how long pictures of so many pixels take. A panic in a
// decoder is an error of this picture.
func (d *decoder) timed(ctx context.Context, r *reservation, pixels int64, f func() error) (err error) {
	defer r.decoded(d.time, pixels)
	select {
	case d.free <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	begin := time.Now()
	defer func() {
		<-d.free
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error, please report it: %v", p)
		}
		if err == nil {
			d.time.observeFastest(kilopixels(pixels), time.Since(begin)/time.Duration(cap(d.free)))
		}
	}()
	return f()
}
