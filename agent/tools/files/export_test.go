package files

// Between loads a file, calls between, and then stores text in its place.
func Between(w *Workspace, path string, between func(), text string) error {
	e := &editor{w: w, deny: func(string) error { return nil }, busy: map[string]bool{}}
	t, err := e.target(path, false)
	if err != nil {
		return err
	}
	defer t.close()
	before, err := t.load()
	if err != nil {
		return err
	}
	between()
	return t.store(before, []byte(text))
}

// ApplyPatch applies the first update of a patch to a text.
func ApplyPatch(patch, file string) (string, error) {
	cs, err := parsePatch(patch)
	if err != nil {
		return "", err
	}
	return cs[0].apply(file)
}

// Diff returns the difference of two texts.
func Diff(before, after string) string { return diff(before, after) }
