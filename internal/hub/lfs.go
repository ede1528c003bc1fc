package hub

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
)

// lfsType is the media type of LFS.
const lfsType = "application/vnd.git-lfs+json"

// lfsAction is the address for the upload of an object, or for its verification.
type lfsAction struct {
	Href   string            `json:"href"`
	Header map[string]string `json:"header"`
}

// sendLarge uploads the LFS files that the Hub does not have.
func (h *Hub) sendLarge(ctx context.Context, n Name, files []*addition, progress func(done, total int64)) error {
	var large []*addition
	var total int64
	for _, a := range files {
		if a.large {
			large, total = append(large, a), total+a.size
		}
	}
	if len(large) == 0 {
		return nil
	}
	done := int64(0)
	sent := func(size int64) {
		if done += size; progress != nil {
			progress(done, total)
		}
	}
	prefix := ""
	if n.Kind == Dataset {
		prefix = "datasets/"
	}
	address := h.Endpoint + "/" + prefix + n.Repo + ".git/info/lfs/objects/batch"
	for part := range slices.Chunk(large, perRequest) {
		var objects []map[string]any
		byOID := map[string]*addition{}
		for _, a := range part {
			if byOID[a.sha] == nil {
				objects = append(objects, map[string]any{"oid": a.sha, "size": a.size})
			}
			byOID[a.sha] = a
		}
		var told struct {
			Objects []struct {
				OID     string               `json:"oid"`
				Actions map[string]lfsAction `json:"actions"`
				Error   *struct {
					Message string `json:"message"`
				} `json:"error"`
			} `json:"objects"`
		}
		ask := map[string]any{"operation": "upload", "transfers": []string{"basic", "multipart"}, "objects": objects,
			"hash_algo": "sha256", "ref": map[string]string{"name": n.revision()}}
		if err := h.post(ctx, n, address, lfsType, ask, &told); err != nil {
			return err
		}
		for _, o := range told.Objects {
			a := byOID[o.OID]
			if a == nil || o.Error != nil {
				return &Error{Name: n, text: fmt.Sprintf("%s rejected object %s: %+v", h.shown, o.OID, o.Error)}
			}
			delete(byOID, o.OID)
			if err := h.sendObject(ctx, n, a, o.Actions, sent); err != nil {
				return err
			}
		}
		for _, a := range byOID {
			return &Error{Name: n, text: fmt.Sprintf("%s returned no upload address for %s", h.shown, a.path)}
		}
	}
	return nil
}

// sendObject uploads an LFS file, in one part or several. Without an action the Hub already has it.
func (h *Hub) sendObject(
	ctx context.Context, n Name, a *addition, actions map[string]lfsAction, sent func(size int64),
) error {
	upload, ok := actions["upload"]
	if !ok {
		sent(a.size)
		return nil
	}
	chunk := a.size
	if text, several := upload.Header["chunk_size"]; several {
		size, err := strconv.ParseInt(text, 10, 64)
		if err != nil || size < 1 {
			return &Error{Name: n, text: fmt.Sprintf("%s requires parts of %q bytes, want a positive number", h.shown, text)}
		}
		chunk = size
	}
	var parts []map[string]any
	for at, k := int64(0), 1; at < a.size; at, k = at+chunk, k+1 {
		size := min(chunk, a.size-at)
		to, header := upload.Href, upload.Header
		if _, several := upload.Header["chunk_size"]; several {
			if to, header = upload.Header[fmt.Sprintf("%05d", k)], nil; to == "" {
				to = upload.Header[strconv.Itoa(k)]
			}
		}
		tag, err := h.put(ctx, n, a, to, header, at, size)
		if err != nil {
			return err
		}
		parts = append(parts, map[string]any{"partNumber": k, "etag": tag})
		sent(size)
	}
	if _, several := upload.Header["chunk_size"]; several {
		body := map[string]any{"oid": a.sha, "parts": parts}
		if err := h.post(ctx, n, upload.Href, lfsType, body, nil); err != nil {
			return err
		}
	}
	if verify, ok := actions["verify"]; ok {
		return h.post(ctx, n, verify.Href, lfsType, map[string]any{"oid": a.sha, "size": a.size}, nil)
	}
	return nil
}

// put sends size bytes of a file starting at offset at, and returns the response's ETag.
func (h *Hub) put(
	ctx context.Context, n Name, a *addition, address string, header map[string]string, at, size int64,
) (tag string, err error) {
	answer, err := h.retry(ctx, n, func() (*http.Response, error) {
		r, err := a.open()
		if err != nil {
			return nil, err
		}
		defer r.Close()
		if _, err := r.Seek(at, io.SeekStart); err != nil {
			return nil, err
		}
		q, err := http.NewRequestWithContext(ctx, http.MethodPut, address, io.LimitReader(r, size))
		if err != nil {
			return nil, err
		}
		q.ContentLength = size
		for name, value := range header {
			q.Header.Set(name, value)
		}
		return h.client.Do(q)
	})
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	return answer.Header.Get("ETag"), nil
}
