package reward

import (
	"fmt"
	"net/http"
	"strings"

	"assay/edit"
	"assay/internal/version"
)

// serverVersion is the version in answers.
const serverVersion = version.Version

// Headers with the identity of judges and server.
const (
	fingerprintHeader = "X-Fingerprint" // NAME=FINGERPRINT, separated by commas
	versionHeader     = "X-Assay-Version"
)

// identity is the identity of a judge in answers.
type identity struct {
	Name        string     `json:"name"`
	Fingerprint string     `json:"fingerprint"`
	Range       edit.Range `json:"score_range"`
}

// identities returns the identities of judges, and their fingerprints in the form of the header.
func identities(judges []*Replicated) (all []identity, header string, err error) {
	var prints []string
	for _, v := range judges {
		print, err := v.Fingerprint()
		if err != nil {
			return nil, "", fmt.Errorf("fingerprint of %s: %w", v.name, err)
		}
		all = append(all, identity{v.name, print, v.info.Range})
		prints = append(prints, v.name+"="+print)
	}
	return all, strings.Join(prints, ", "), nil
}

// demand returns an error if the judge does not have the required fingerprint; "": any.
func (v *Replicated) demand(want string) error {
	if want == "" {
		return nil
	}
	print, err := v.Fingerprint()
	if err == nil && print != want {
		err = apiErrorf(http.StatusPreconditionFailed, "fingerprint", "scorer %s has fingerprint %s, not the required %s",
			v.name, print, want)
	}
	return err
}

// demand returns an error if judges do not have the fingerprints required by the request's header.
func (s *Server) demand(r *http.Request) error {
	for _, line := range r.Header.Values(fingerprintHeader) {
		for part := range strings.SplitSeq(line, ",") {
			name, print, ok := strings.Cut(strings.TrimSpace(part), "=")
			if !ok || name == "" || print == "" {
				return apiErrorf(http.StatusBadRequest, "bad_request", "%s: %q: want NAME=FINGERPRINT", fingerprintHeader,
					part)
			}
			v, err := s.engine.scorers.find(name)
			if err == nil {
				err = v.demand(print)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// judges lists the served judges.
func (s *Server) judges(w http.ResponseWriter, _ *http.Request) error {
	type described struct {
		identity
		Dimensions []string `json:"dimensions,omitempty"`
		Sources    *int     `json:"sources"` // nil: any number
		Gradients  bool     `json:"gradients"`
		Words      bool     `json:"words"`
	}
	list := []described{}
	all := s.engine.scorers.all()
	ids, _, err := identities(all)
	if err != nil {
		return err
	}
	for i, v := range all {
		d := described{identity: ids[i], Gradients: v.gradients && !v.info.Words, Words: v.info.Words}
		if n := v.info.Sources; n != edit.Any {
			d.Sources = &n
		}
		for _, one := range v.info.Dimensions {
			d.Dimensions = append(d.Dimensions, one.Name)
		}
		list = append(list, d)
	}
	return writeJSON(w, http.StatusOK, map[string]any{"version": serverVersion, "judges": list})
}
