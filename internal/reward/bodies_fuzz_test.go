package reward

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"assay/edit"
	"assay/internal/fuzzing"
)

// FuzzBodies sends arbitrary bodies to every endpoint, as JSON, as a form and with an unknown type. The response is
// never an internal error, is always JSON, and is cheap. The first two bytes choose the path and the type.
// (FuzzRequests, which is slower, uses a real scorer.)
func FuzzBodies(f *testing.F) {
	s, err := NewServer(Options{MaxBody: 1 << 16, MaxPixels: 1 << 10, Memory: 1 << 30},
		[]string{"scorer"}, []edit.Judge{&fake{}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(s.Close)
	picture := png(f, 200, 4, 3)
	coded := base64.StdEncoding.EncodeToString(picture)
	paths := []string{"/v1/score", "/v1/gradient", "/score"}
	kinds := []string{"application/json", "multipart/form-data; boundary=b", "text/plain", "multipart/form-data"}
	x := fuzzing.New(f)
	add := func(path, kind int, body string) { x.Add(append([]byte{byte(path), byte(kind)}, body...)) }
	for path := range paths {
		add(path, 0, `{"source":"`+coded+`","instruction":"x","edits":["`+coded+`","a"]}`)
		add(path, 0, `{"source":"data:image/png;base64,`+coded+`","instruction":"\ud800","edit":"`+coded+`"}`)
		add(
			path,
			0,
			`{"requests":[{"required_rewards":["scorer"],"history":[{"text":"x","image_b64":"`+coded+`"},`+
				`{"image_b64":"`+coded+`"}]}]}`,
		)
		add(path, 0, `{"input_images":["`+coded+`"],"output_image":"`+coded+`","meta_datas":[{"instruction":"x"}]}`)
		add(path, 0, strings.Repeat(`{"requests":[`, 100))
		part := "--b\r\nContent-Disposition: form-data; name=\""
		add(
			path,
			1,
			part+"source\"; filename=\"a.png\"\r\n\r\n"+string(picture)+"\r\n"+part+"instruction\"\r\n\r\nx\r\n"+
				part+"edits\"; filename=\"b.png\"\r\n\r\n"+string(picture)+"\r\n--b--\r\n",
		)
	}
	x.Run(func(t testing.TB, raw []byte) {
		if len(raw) < 2 {
			return
		}
		path, kind, body := raw[0], raw[1], raw[2:]
		r, err := http.NewRequest("POST", "http://localhost"+paths[int(path)%len(paths)], bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", kinds[int(kind)%len(kinds)])
		w := &recorder{header: http.Header{}}
		fuzzing.Bounded(t, 16<<20+256*uint64(len(body)), func() { s.ServeHTTP(w, r) })
		if w.code >= 500 || w.code == 0 {
			t.Errorf("%d %.300s", w.code, w.body.Bytes())
		}
		if strings.HasPrefix(w.header.Get("Content-Type"), "application/json") && !json.Valid(w.body.Bytes()) {
			t.Errorf("%d, and not JSON: %.300s", w.code, w.body.Bytes())
		}
	})
}
