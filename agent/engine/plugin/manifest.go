package plugin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"hermesd/agent/llm"
)

// DefaultTimeout limits one answer of an engine unless its manifest sets a
// timeout.
const DefaultTimeout = time.Minute

// maxTimeout is the longest timeout that a manifest may set.
const maxTimeout = 10 * time.Minute

const fileName = "plugin.yaml"

// A Manifest describes an external engine and how it is started.
type Manifest struct {
	Name    string
	Command []string // a relative name with a slash is relative to Dir
	Timeout time.Duration
	Dir     string
	// Tools are offered to the model. With Preflight the program is asked
	// before each turn.
	Tools     []llm.Tool
	Preflight bool
}

// A ManifestError means that a directory has no valid manifest.
type ManifestError struct {
	Dir     string
	Missing []string // descriptions, for people
}

// Error lists everything that is missing.
func (e *ManifestError) Error() string {
	return fmt.Sprintf("%s is not a context engine: %s; docs/engines.md shows the form", e.Dir, strings.Join(e.Missing, "; "))
}

var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// Load reads the manifest in dir. An invalid manifest gives a *ManifestError.
func Load(dir string) (Manifest, error) {
	m := Manifest{Dir: dir, Timeout: DefaultTimeout}
	path := filepath.Join(dir, fileName)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return m, &ManifestError{dir, []string{"there is no " + fileName}}
	case err != nil:
		return m, fmt.Errorf("context engine: %w", err)
	case !info.Mode().IsRegular() || info.Size() > 64<<10:
		return m, &ManifestError{dir, []string{fileName + " is no small file"}}
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return m, fmt.Errorf("context engine: %w", err)
	}
	return m, m.parse(raw)
}

func (m *Manifest) parse(raw []byte) error {
	var in struct {
		Name    string            `yaml:"name"`
		Command yaml.Node         `yaml:"command"`
		Timeout string            `yaml:"timeout"`
		Tools   []toolDeclaration `yaml:"tools"`
		// Preflight is optional, since it sends the whole conversation each
		// time.
		Preflight bool `yaml:"preflight"`
	}
	if err := yaml.Unmarshal(raw, &in); err != nil {
		return &ManifestError{m.Dir, []string{fileName + " cannot be read: " + strings.TrimPrefix(err.Error(), "yaml: ")}}
	}
	var missing []string
	m.Name = in.Name
	switch base := filepath.Base(m.Dir); {
	case in.Name == "":
		missing = append(missing, "name is missing")
	case !validName.MatchString(in.Name):
		missing = append(missing, fmt.Sprintf("name %q is not of a-z, 0-9, - and _", in.Name))
	case in.Name != base:
		missing = append(missing, fmt.Sprintf("name is %q and the directory is called %q", in.Name, base))
	}
	switch in.Command.Kind {
	case yaml.SequenceNode:
		if err := in.Command.Decode(&m.Command); err != nil {
			missing = append(missing, "command is no list of words")
		}
	case yaml.ScalarNode:
		m.Command = strings.Fields(in.Command.Value)
	}
	if len(m.Command) == 0 || m.Command[0] == "" {
		missing = append(missing, "command is missing: the program that speaks JSON-RPC on its standard input and output")
	}
	if in.Timeout != "" {
		d, err := time.ParseDuration(in.Timeout)
		if err != nil || d <= 0 || d > maxTimeout {
			missing = append(missing, fmt.Sprintf("timeout %q is no time such as 30s, of at most %v", in.Timeout, maxTimeout))
		}
		m.Timeout = d
	}
	m.Preflight = in.Preflight
	var bad []string
	m.Tools, bad = parseTools(in.Tools)
	if missing = append(missing, bad...); missing != nil {
		return &ManifestError{m.Dir, missing}
	}
	return nil
}

// List returns the engines in the subdirectories of dir, by name, and the
// errors of the others. It starts nothing. A missing dir has no engines.
func List(dir string) ([]Manifest, []error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, []error{fmt.Errorf("context engines: %w", err)}
	}
	var ms []Manifest
	var bad []error
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			continue
		}
		m, err := Load(path)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		ms = append(ms, m)
	}
	sort.Slice(ms, func(i, j int) bool { return ms[i].Name < ms[j].Name })
	return ms, bad
}
