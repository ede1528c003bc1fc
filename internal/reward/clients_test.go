package reward

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/edit"
	"assay/internal/long"
)

// Each client has its own token and quota.
func TestClients(t *testing.T) {
	_, h := start(t, Options{
		Token:   "main-token",
		Clients: []Client{{Name: "alice", Token: "alice-token", Edits: 5}, {Name: "bob", Token: "bob-token"}},
	}, map[string]edit.Judge{"a": &fake{}}, "a")
	ask := func(token string, edits int) (int, http.Header, string) {
		picture := png(t, 51, 4, 4)
		var list []any
		for range edits {
			list = append(list, picture)
		}
		raw, err := json.Marshal(object{"source": picture, "instruction": "x", "edits": list})
		if err != nil {
			t.Fatal(err)
		}
		r, _ := http.NewRequest("POST", h.URL+"/v1/score", bytes.NewReader(raw))
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		raw, _ = io.ReadAll(answer.Body)
		return answer.StatusCode, answer.Header, string(raw)
	}
	for i, c := range []struct {
		token string
		edits int
		code  int
		kind  string
	}{
		{"alice-token", 3, 200, ""}, {"alice-token", 2, 200, ""}, {"alice-token", 2, 429, `"quota"`},
		{"alice-token", 6, 413, `"too_many"`},
		{"bob-token", 200, 200, ""}, {"main-token", 6, 200, ""}, {"eve-token", 1, 401, `"unauthorized"`},
		{"", 1, 401, `"unauthorized"`},
	} {
		code, header, raw := ask(c.token, c.edits)
		if code != c.code || !strings.Contains(raw, c.kind) || code == 429 && header.Get("Retry-After") == "" ||
			code == 401 && header.Get("WWW-Authenticate") == "" {
			t.Errorf("request %d: %d %v %s", i, code, header, raw)
		}
	}
	const x, y = "token-of-x", "token-of-y"
	for _, bad := range [][]Client{
		{{Name: "a"}},
		{{Token: x}},
		{{Name: "a", Token: x}, {Name: "b", Token: x}},
		{{Name: "a", Token: x}, {Name: "a", Token: y}},
		{{Name: "a", Token: " " + x}},
		{{Name: "a", Token: "seven.."}},
		{{Name: "a", Token: x, Edits: -1}},
	} {
		if s, err := NewServer(Options{Clients: bad}, []string{"a"}, []edit.Judge{&fake{}}); err == nil {
			s.Close()
			t.Errorf("clients %v were accepted", bad)
		}
	}
}

// TestShortTokens: no token is short enough to be guessed, for named and unnamed clients.
func TestShortTokens(t *testing.T) {
	for token, want := range map[string]string{
		"x":         "the bearer token: want a token of at least 8 characters: one of 1 can be guessed",
		"1234567":   "one of 7 can be guessed",
		"äöüßéèà":   "one of 7 can be guessed",
		" 12345678": "without spaces around it",
		"12345678":  "",
		"":          "",
	} {
		s, err := NewServer(Options{Token: token}, []string{"a"}, []edit.Judge{&fake{}})
		if err == nil {
			s.Close()
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("token %q: got %v, want %q", token, err, want)
		}
	}
}

// An invalid file of clients is refused with the line and the remedy.
func TestParseClients(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"clients:\n  - {name: a, token: token-of-a, edits_per_minute: 30}\n  - {name: b, token: token-of-b}\n", ""},
		{"clients: []\n", "clients.yaml:1:1: clients: want a list of clients"},
		{"clients:\n  - {name: a, token: x}\n", "client a: want a token of at least 8 characters: one of 1 can be guessed"},
		{"clients:\n  - name: a\n    token: token-of-a\n    edits_per_minute: 0\n",
			"clients.yaml:4:5: clients[0].edits_per_minute: want more than 0 edits per minute; omit the key"},
		{"clients:\n  - {name: a, token: token-of-a, rate: 3}\n", "clients[0].rate: unknown key"},
	} {
		clients, err := ParseClients("clients.yaml", []byte(c.file))
		if c.want == "" && (err != nil || len(clients) != 2 || clients[0].Edits != 30) {
			t.Errorf("%q: %v, %v", c.file, clients, err)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: %v, want %q", c.file, err, c.want)
		}
	}
}

// With a certificate the server speaks HTTPS, including HTTP/2, and shuts down like any other.
func TestTLS(t *testing.T) {
	long.Test(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		NotAfter:     time.Now().Add(time.Hour),
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	o := Options{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	for path, block := range map[string]*pem.Block{o.Cert: {Type: "CERTIFICATE", Bytes: cert},
		o.Key: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := NewServer(o, []string{"a"}, []edit.Judge{&fake{}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	url, stop := serve(t, s)
	roots := x509.NewCertPool()
	parsed, err := x509.ParseCertificate(cert)
	if err != nil {
		t.Fatal(err)
	}
	roots.AddCert(parsed)
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
	picture := png(t, 51, 4, 4)
	raw, err := json.Marshal(object{"source": picture, "instruction": "x", "edits": []any{picture}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Post(url+"/v1/score", "application/json", bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	raw, _ = io.ReadAll(r.Body)
	if got := decodeScores(t, raw); r.StatusCode != 200 || r.ProtoMajor != 2 || *got.Results[0].Score != 2 {
		t.Errorf("%s %s", r.Status, raw)
	}
	stop()
}

// The scheme of a token is case-insensitive; another scheme is not accepted.
func TestTokenScheme(t *testing.T) {
	o := Options{Clients: []Client{{Name: "a", Token: "alice-token"}}}
	s, err := NewServer(o, []string{"a"}, []edit.Judge{&fake{}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for header, known := range map[string]bool{"Bearer alice-token": true, "bearer alice-token": true,
		"BEARER alice-token": true,
		"Basic alice-token":  false, "alice-token": false, "Bearer": false, "Bearer  alice-token": false, "": false} {
		r, _ := http.NewRequest("POST", "/v1/score", nil)
		r.Header.Set("Authorization", header)
		if (s.front.clients.authenticate(r) != nil) != known {
			t.Errorf("%q: known is %v, want %v", header, !known, known)
		}
	}
}

// TestRefusedIsFree: a request that is refused because the server is busy uses none of its client's quota, and is not
// counted as admitted.
func TestRefusedIsFree(t *testing.T) {
	f := &fake{gate: make(chan struct{})}
	s, h := start(t, Options{Queue: 1, Clients: []Client{{Name: "alice", Token: "alice-token", Edits: 3},
		{Name: "bob", Token: "bob-token"}}}, map[string]edit.Judge{"a": f}, "a")
	ask := func(token string, edits int) (int, string) {
		picture := png(t, 51, 4, 4)
		raw, err := json.Marshal(object{"source": picture, "instruction": "x", "edits": slices.Repeat([]any{picture}, edits)})
		if err != nil {
			t.Fatal(err)
		}
		r, _ := http.NewRequest("POST", h.URL+"/v1/score", bytes.NewReader(raw))
		r.Header.Set("Authorization", "Bearer "+token)
		code, _, body := send(t, r)
		return code, body
	}
	var all sync.WaitGroup
	all.Go(func() {
		if code, body := ask("bob-token", 1); code != 200 {
			t.Errorf("bob: got %d %s", code, body)
		}
	})
	eventually(t, "bob's run", s.engine.queue.running)
	for range 3 {
		if code, body := ask("alice-token", 3); code != 429 || !strings.Contains(body, `"busy"`) {
			t.Errorf("while the server is busy: got %d %s, want 429 busy", code, body)
		}
	}
	close(f.gate)
	all.Wait()
	if code, body := ask("alice-token", 3); code != 200 {
		t.Errorf("afterwards: got %d %s, want 200: the quota is unused", code, body)
	}
	w := httptest.NewRecorder()
	s.engine.metrics.handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if want := `assay_client_edits_total{client="alice"} 3`; !strings.Contains(w.Body.String(), want+"\n") {
		t.Errorf("no line %s", want)
	}
}
