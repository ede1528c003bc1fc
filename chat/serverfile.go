package chat

import "assay/internal/strictyaml"

// ReadServer reads the settings of a server from YAML text, all problems at once. file is named in them; change (may be
// nil) alters the settings before they are checked.
func ReadServer(file string, text []byte, change func(*Server)) (Server, error) {
	s := DefaultServer()
	d := strictyaml.Decode(file, text, &s)
	if change != nil {
		change(&s)
	}
	if !d.Unreadable {
		for key, text := range s.Check() {
			d.Problem(key, "%s", text)
		}
	}
	return s, d.Err()
}
