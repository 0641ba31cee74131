package skills

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"hermesd/agent/skills/internal/frontmatter"
	"hermesd/internal/shorten"
)

// ErrUnknown means that there is no skill with that name.
var ErrUnknown = errors.New("there is no such skill")

// A BlockedError means that a text was not shown or not written because of
// injection findings.
type BlockedError struct {
	What     string // "git/SKILL.md"
	Findings []string
	Write    bool
}

func (e *BlockedError) Error() string {
	if e.Write {
		return fmt.Sprintf("not written: the text for %s matches the threat patterns %s; write it without them", e.What, strings.Join(e.Findings, ", "))
	}
	return fmt.Sprintf("[BLOCKED: %s contained potential prompt injection (%s). Content not loaded.]", e.What, strings.Join(e.Findings, ", "))
}

// A View is one file of a skill, read at the time of the call.
type View struct {
	Skill Skill
	File  string // relative to the skill, with slashes
	Text  string
	// Files are the other files of the skill, relative to it.
	Files []string
}

// View returns a file of the skill that Find returns for name; file "" is its
// SKILL.md. A file that is binary, too large, or blocked by the scan gives an
// error that says so. View ignores Hidden.
func (l *Library) View(name, file string) (View, error) {
	s, ok := l.Catalog().Find(name)
	if !ok {
		return View{}, fmt.Errorf("%w as %s; skills_list names them all", ErrUnknown, quote(name))
	}
	root, err := l.open(s)
	if err != nil {
		return View{}, err
	}
	defer root.Close()
	file = cmp.Or(file, mainFile)
	file, err = cleanPath(file)
	if err != nil {
		return View{}, err
	}
	raw, err := readText(root, file)
	if err != nil {
		return View{}, fmt.Errorf("%s of the skill %s %w", file, s.Name, err)
	}
	v := View{Skill: s, File: file, Text: strings.ToValidUTF8(string(raw), "\uFFFD"), Files: listFiles(root)}
	if found := promptFindings(l.o.Scan(v.Text)); len(found) > 0 {
		return View{}, &BlockedError{What: s.Name + "/" + file, Findings: found}
	}
	return v, nil
}

// open opens the directory of a skill. Nothing reachable through it is outside.
func (l *Library) open(s Skill) (*os.Root, error) {
	root, err := os.OpenRoot(l.roots[s.root])
	if err != nil {
		return nil, fmt.Errorf("the folder of skills cannot be opened: %s", errorReason(err))
	}
	defer root.Close()
	dir, err := root.OpenRoot(filepath.FromSlash(s.path))
	if err != nil {
		return nil, fmt.Errorf("the skill %s cannot be opened: %s", s.Name, errorReason(err))
	}
	return dir, nil
}

// cleanPath returns the path of a file inside a skill.
func cleanPath(file string) (string, error) {
	clean := path.Clean(file)
	if !fs.ValidPath(clean) || clean == "." || strings.ContainsRune(clean, 0) || strings.Contains(clean, "\\") {
		return "", fmt.Errorf("%s is no path inside a skill; write it relative to the skill and do not go up", quote(file))
	}
	return clean, nil
}

func quote(s string) string {
	return fmt.Sprintf("%q", truncate(strings.ToValidUTF8(s, "\uFFFD"), 100))
}

// readText reads a text file. The text of its error continues after the file
// name.
func readText(root *os.Root, file string) ([]byte, error) {
	raw, err := readHead(root, file, maxFile+1)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errors.New("does not exist; skill_view without a file names the files of a skill")
	case escapes(err):
		return nil, errors.New("leads out of the skill and is not read")
	case err != nil:
		return nil, fmt.Errorf("cannot be read: %s", errorReason(err))
	case len(raw) > maxFile:
		return nil, fmt.Errorf("is larger than %d KiB and is not shown", maxFile>>10)
	}
	kind := http.DetectContentType(raw[:min(len(raw), 512)])
	if bytes.IndexByte(raw, 0) >= 0 || !utf8.Valid(raw) && !strings.HasPrefix(kind, "text/") {
		return nil, fmt.Errorf("is not text (%s, %d bytes)", kind, len(raw))
	}
	return raw, nil
}

// listFiles returns the regular files below root except the main one, in order.
func listFiles(root *os.Root) []string {
	var out []string
	// Directories that cannot be walked are omitted; reading them returns the
	// error.
	_ = fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || p == ".":
			return nil
		case d.Name()[0] == '.' && d.IsDir(), d.IsDir() && strings.Count(p, "/") >= maxDepth:
			return fs.SkipDir
		case len(out) >= maxFiles:
			return fs.SkipAll
		case d.Type().IsRegular() && d.Name()[0] != '.' && p != mainFile:
			out = append(out, strings.ToValidUTF8(p, "\uFFFD"))
		}
		return nil
	})
	return out
}

// promptFindings returns the findings that address the model. Commands that
// send a key or read a file of secrets are the subject of many skills, so they
// count only in text written by a model.
func promptFindings(findings []string) []string {
	return slices.DeleteFunc(slices.Clone(findings), func(id string) bool {
		return id == "exfil_curl" || id == "read_secrets"
	})
}

// Body returns the text without the front matter of a SKILL.md.
func (v View) Body() string {
	if v.File != mainFile {
		return v.Text
	}
	_, body, _ := frontmatter.Split([]byte(v.Text))
	return strings.TrimSpace(string(body))
}

// Expanded returns the view with ${HERMES_SKILL_DIR} and ${HERMES_SESSION_ID}
// replaced by their values.
func (v View) Expanded(session string) View {
	v.Text = strings.NewReplacer("${HERMES_SKILL_DIR}", v.Skill.Dir, "${HERMES_SESSION_ID}", session).Replace(v.Text)
	return v
}

// Invocation returns the text for the model when a user calls the skill by a
// command; args is the user's text after the command.
func (v View) Invocation(args string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[The user calls the skill %q. Follow it.]\n\n%s", v.Skill.Name, v.Body())
	if len(v.Files) > 0 {
		fmt.Fprintf(&b, "\n\n[Further files of the skill, to be read with skill_view(%q, file): %s]", v.Skill.Name, strings.Join(v.Files, ", "))
	}
	if args = strings.TrimSpace(args); args != "" {
		b.WriteString("\n\n[What the user wrote with it:]\n" + args)
	}
	return b.String()
}

//go:embed index.md
var indexText string

// MaxIndex is the desired maximum of characters in an index, unless the filter
// sets one. In a longer one descriptions are shortened, and finally omitted.
const MaxIndex = 24_000

// widths returns the maximum lengths of a description in an index, tried in
// order.
func widths() []int { return []int{240, 60, 0} }

// Index returns the text that lists the offered skills for a model, "" if there
// are none. Equal catalogs and filters give equal bytes.
func (c *Catalog) Index(f Filter) string {
	key := fmt.Sprintf("%q", []any{f.OS, f.Tools == nil, f.Tools, f.Toolsets == nil, f.Toolsets, f.Disabled, f.MaxIndex})
	if last := c.index.Load(); last != nil && last.key == key {
		return last.text
	}
	text := c.render(f)
	c.index.Store(&renderedIndex{key, text})
	return text
}

// renderedIndex is the most recent index, and the key of its filter.
type renderedIndex struct{ key, text string }

func (c *Catalog) render(f Filter) string {
	skills := c.Visible(f)
	if len(skills) == 0 {
		return ""
	}
	most := cmp.Or(f.MaxIndex, MaxIndex)
	var text string
	for _, w := range widths() {
		if text = index(skills, w); len(text) <= most || utf8.RuneCountInString(text) <= most {
			break
		}
	}
	return text
}

func index(skills []Skill, width int) string {
	return "## Skills (mandatory)\n" + strings.TrimSpace(indexText) + "\n<available_skills>\n" + Lines(skills, width) + "</available_skills>"
}

// Lines returns a line for each category and one for each skill, with at most
// width characters of its description. Skills of a category must be adjacent.
func Lines(skills []Skill, width int) string {
	var b strings.Builder
	b.Grow(len(skills) * (width + 40))
	category := ""
	for _, s := range skills {
		if s.Category != category {
			category = s.Category
			b.WriteString(escapeFrame(category) + ":\n")
		}
		b.WriteString("- " + escapeFrame(s.Name))
		if d := truncate(escapeFrame(s.Description), width); d != "" {
			b.WriteString(": " + d)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

var framePattern = regexp.MustCompile(`(?i)<(\s*/?\s*available_skills)`)

// escapeFrame prevents a text from ending the list that contains it.
func escapeFrame(s string) string {
	if !strings.Contains(s, "<") {
		return s
	}
	return framePattern.ReplaceAllString(s, "&lt;$1")
}

func truncate(s string, n int) string {
	switch {
	case shorten.Offset(s, n) == len(s):
		return s
	case n == 0:
		return ""
	}
	return strings.TrimSpace(s[:shorten.Offset(s, n-1)]) + "…"
}
