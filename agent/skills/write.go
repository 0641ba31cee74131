package skills

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"hermesd/agent/skills/internal/frontmatter"
)

// Create writes a new skill into the home directory. category is up to three
// directory names, "" for none. The skill is created atomically.
func (l *Library) Create(ctx context.Context, name, category, content string) error {
	if !validName.MatchString(name) {
		return fmt.Errorf("%s is no name for a skill: use small letters, digits, dot, dash and underscore, 64 at most, a letter or digit first", quote(name))
	}
	category = strings.Trim(strings.TrimSpace(category), "/")
	if category == general {
		category = ""
	}
	for part := range strings.SplitSeq(category, "/") {
		if category != "" && (!validName.MatchString(part) || strings.Count(category, "/") > 2) {
			return fmt.Errorf("%s is no category: use up to three names with / between them, each like the name of a skill", quote(category))
		}
	}
	if err := l.checkMain(name, content); err != nil {
		return err
	}
	return l.withWriteLock(ctx, func(c *Catalog) error {
		if s, ok := c.Find(name); ok {
			return fmt.Errorf("there is a skill %s already, in the category %s; edit or patch it, or use another name", s.Name, s.Category)
		}
		if len(c.skills) >= maxSkills {
			return fmt.Errorf("there are %d skills already, which is the most; delete some first", len(c.skills))
		}
		if err := os.MkdirAll(l.roots[0], 0o700); err != nil {
			return fmt.Errorf("the folder of skills cannot be made: %s", errorReason(err))
		}
		return withRoot(l.roots[0], func(root *os.Root) error { return createFolder(root, path.Join(category, name), content) })
	})
}

// createFolder creates a directory with a SKILL.md under a hidden name and then
// renames it.
func createFolder(root *os.Root, dir, content string) error {
	if err := root.MkdirAll(filepath.FromSlash(path.Dir(dir)), 0o700); err != nil {
		return fmt.Errorf("the category cannot be made: %s", errorReason(err))
	}
	tmp := path.Join(path.Dir(dir), hiddenName("new"))
	err := root.Mkdir(filepath.FromSlash(tmp), 0o700)
	if err == nil {
		err = writeNewFile(root, path.Join(tmp, mainFile), []byte(content), 0o600)
	}
	if err == nil {
		err = root.Rename(filepath.FromSlash(tmp), filepath.FromSlash(dir))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("the skill cannot be written: %s", errorReason(err)), root.RemoveAll(filepath.FromSlash(tmp)))
	}
	return syncFolder(root, path.Dir(dir))
}

// Edit replaces the whole SKILL.md of a skill.
func (l *Library) Edit(ctx context.Context, name, content string) error {
	return l.withSkill(ctx, name, func(s Skill, root *os.Root) error {
		if err := l.checkMain(s.Name, content); err != nil {
			return err
		}
		return replaceFile(root, mainFile, []byte(content))
	})
}

// Patch replaces a passage in a file of a skill, "" for its SKILL.md, and
// returns the number of replacements. The passage must occur exactly once
// unless r.Everywhere is true. The result must be a file that could be written
// as a whole.
func (l *Library) Patch(ctx context.Context, name, file string, r Replacement) (n int, err error) {
	err = l.withSkill(ctx, name, func(s Skill, root *os.Root) error {
		file = cmp.Or(file, mainFile)
		at, err := cleanPath(file)
		if err != nil {
			return err
		}
		if at != mainFile {
			if at, err = supportPath(file); err != nil {
				return err
			}
		}
		raw, err := readText(root, at)
		if err != nil {
			return fmt.Errorf("%s %w", at, err)
		}
		text, count, err := r.apply(string(raw))
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		if at == mainFile {
			err = l.checkMain(s.Name, text)
		} else {
			err = l.checkFile(s.Name+"/"+at, text)
		}
		if err != nil {
			return err
		}
		n = count
		return replaceFile(root, at, []byte(text))
	})
	return n, err
}

// WriteFile writes a file into one of the directories references, templates,
// scripts and assets of a skill.
func (l *Library) WriteFile(ctx context.Context, name, file, content string) error {
	return l.withSkill(ctx, name, func(s Skill, root *os.Root) error {
		at, err := supportPath(file)
		if err != nil {
			return err
		}
		if err := l.checkFile(s.Name+"/"+at, content); err != nil {
			return err
		}
		if have := listFiles(root); len(have) >= maxFiles && !slices.Contains(have, at) {
			return fmt.Errorf("the skill has %d files already, which is the most", len(have))
		}
		if err := root.MkdirAll(filepath.FromSlash(path.Dir(at)), 0o700); err != nil {
			return fmt.Errorf("the folder %s cannot be made: %s", path.Dir(at), errorReason(err))
		}
		return replaceFile(root, at, []byte(content))
	})
}

// RemoveFile removes a file from one of those directories.
func (l *Library) RemoveFile(ctx context.Context, name, file string) error {
	return l.withSkill(ctx, name, func(_ Skill, root *os.Root) error {
		at, err := supportPath(file)
		if err != nil {
			return err
		}
		info, err := root.Lstat(filepath.FromSlash(at))
		switch {
		case err == nil && info.IsDir():
			return fmt.Errorf("%s is a folder; name a file", at)
		case err == nil:
			err = root.Remove(filepath.FromSlash(at))
		}
		if err != nil {
			return fmt.Errorf("%s cannot be removed: %s", at, errorReason(err))
		}
		return nil
	})
}

// Delete removes a skill with all its files.
func (l *Library) Delete(ctx context.Context, name string) error {
	return l.withWriteLock(ctx, func(c *Catalog) error {
		s, err := findWritable(c, name)
		if err != nil {
			return err
		}
		if s.path == "." {
			return errors.New("the skill is the folder of all skills and is not deleted")
		}
		return withRoot(l.roots[0], func(root *os.Root) error {
			// Under a hidden name, a partly deleted skill is not found.
			gone := filepath.FromSlash(path.Join(path.Dir(s.path), hiddenName("old")))
			if err := root.Rename(filepath.FromSlash(s.path), gone); err != nil {
				return fmt.Errorf("the skill cannot be deleted: %s", errorReason(err))
			}
			if err := root.RemoveAll(gone); err != nil {
				return fmt.Errorf("the skill is deleted, but some of its files are left in %s: %s", gone, errorReason(err))
			}
			if dir := path.Dir(s.path); dir != "." {
				_ = root.Remove(filepath.FromSlash(dir)) // fails unless it is empty
			}
			return nil
		})
	})
}

// withWriteLock runs f while no other write is running.
func (l *Library) withWriteLock(ctx context.Context, f func(*Catalog) error) error {
	if err := l.acquire(ctx); err != nil {
		return err
	}
	defer l.release()
	return f(l.Catalog())
}

// withSkill runs f with the skill called name while no other write is running.
func (l *Library) withSkill(ctx context.Context, name string, f func(Skill, *os.Root) error) error {
	return l.withWriteLock(ctx, func(c *Catalog) error {
		s, err := findWritable(c, name)
		if err != nil {
			return err
		}
		root, err := l.open(s)
		if err != nil {
			return err
		}
		defer root.Close()
		return f(s, root)
	})
}

// findWritable returns the skill called name if it may be written.
func findWritable(c *Catalog, name string) (Skill, error) {
	s, ok := c.Find(name)
	switch {
	case !ok:
		return s, fmt.Errorf("%w as %s; skills_list names them all", ErrUnknown, quote(name))
	case s.ReadOnly:
		return s, fmt.Errorf("the skill %s stands in an external folder and is only read; create one of your own instead", s.Name)
	}
	return s, nil
}

// checkMain returns why content cannot be the SKILL.md of the skill called
// name.
func (l *Library) checkMain(name, content string) error {
	if n := utf8.RuneCountInString(content); n > maxContent {
		return fmt.Errorf("the content has %d characters; the most is %d. Put details into files of their own, in references/", n, maxContent)
	}
	if err := l.checkFile(name+"/"+mainFile, content); err != nil {
		return err
	}
	_, body, ok := frontmatter.Split([]byte(content))
	if !ok {
		return errors.New("the content must begin with a front matter: a line ---, name: and description:, a line ---; then the instructions")
	}
	if strings.TrimSpace(string(body)) == "" {
		return errors.New("there are no instructions behind the front matter")
	}
	head := content[:min(len(content), maxHeader)]
	_, problems := parse(name, []byte(strings.ToValidUTF8(head, "")))
	if len(problems) > 0 {
		return fmt.Errorf("the content is not right: %s", strings.Join(problems, "; "))
	}
	return nil
}

// checkFile returns why content cannot be a file of a skill.
func (l *Library) checkFile(what, content string) error {
	switch {
	case !utf8.ValidString(content) || strings.ContainsRune(content, 0):
		return fmt.Errorf("the text for %s is not text", what)
	case len(content) > maxFile:
		return fmt.Errorf("the text for %s has %d bytes; the most is %d", what, len(content), maxFile)
	}
	if found := l.o.Scan(content); len(found) > 0 {
		return &BlockedError{What: what, Findings: found, Write: true}
	}
	return nil
}

// supportPath returns the path of a file that may be written next to a
// SKILL.md.
func supportPath(file string) (string, error) {
	at, err := cleanPath(file)
	if err != nil {
		return "", err
	}
	parts := strings.Split(at, "/")
	odd := slices.ContainsFunc(parts, func(p string) bool { return p[0] == '.' || len(p) > 100 })
	if len(parts) < 2 || len(parts) > 4 || odd || !slices.Contains(supportFolders(), parts[0]) || parts[len(parts)-1] == mainFile {
		return "", fmt.Errorf("%s cannot be written: files belong into %s of the skill", quote(file), strings.Join(supportFolders(), "/, ")+"/")
	}
	return at, nil
}

// withRoot runs f with the directory dir open.
func withRoot(dir string, f func(*os.Root) error) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("the folder of skills cannot be opened: %s", errorReason(err))
	}
	defer root.Close()
	return f(root)
}

// replaceFile replaces the content of a file atomically. The mode of an
// existing file is kept.
func replaceFile(root *os.Root, file string, content []byte) error {
	mode := fs.FileMode(0o600)
	if info, err := root.Lstat(filepath.FromSlash(file)); err == nil {
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is not a regular file and is not written", file)
		}
		mode = info.Mode().Perm()
	}
	tmp := path.Join(path.Dir(file), hiddenName("tmp"))
	err := writeNewFile(root, tmp, content, mode)
	if err == nil {
		err = root.Rename(filepath.FromSlash(tmp), filepath.FromSlash(file))
	}
	if err != nil {
		_ = root.Remove(filepath.FromSlash(tmp)) // it may not exist
		return fmt.Errorf("%s cannot be written: %s", file, errorReason(err))
	}
	return syncFolder(root, path.Dir(file))
}

// A Replacement replaces Old by New.
type Replacement struct {
	Old, New   string
	Everywhere bool // Old may occur more than once
}

// apply returns text with the replacement made, and the number of replacements.
// If Old does not occur exactly, lines that differ from it only in their
// spacing are replaced.
func (r Replacement) apply(text string) (string, int, error) {
	if strings.TrimSpace(r.Old) == "" {
		return "", 0, errors.New("say which text is to be replaced")
	}
	if r.Old == r.New {
		return "", 0, errors.New("the old and the new text are the same")
	}
	n := strings.Count(text, r.Old)
	switch {
	case n > 1 && !r.Everywhere:
		return "", 0, fmt.Errorf("the text to be replaced stands there %d times; give more of what is around it, or replace all", n)
	case n > 0:
		return strings.ReplaceAll(text, r.Old, r.New), n, nil
	}
	return r.applyByLines(text)
}

func (r Replacement) applyByLines(text string) (string, int, error) {
	lines, want := strings.Split(text, "\n"), strings.Split(strings.Trim(r.Old, "\r\n"), "\n")
	var out []string
	n := 0
	for i := 0; i < len(lines); {
		if !equalIgnoringSpace(lines[i:], want) {
			out = append(out, lines[i])
			i++
			continue
		}
		if n++; r.New != "" {
			out = append(out, strings.Trim(r.New, "\r\n"))
		}
		i += len(want)
	}
	switch {
	case n == 0:
		return "", 0, errors.New("the text to be replaced does not stand there; look at the file with skill_view and copy it exactly")
	case n > 1 && !r.Everywhere:
		return "", 0, fmt.Errorf("%d places are like the text to be replaced; give more of what is around it, or replace all", n)
	}
	return strings.Join(out, "\n"), n, nil
}

// equalIgnoringSpace reports whether lines begin with want, ignoring spacing.
func equalIgnoringSpace(lines, want []string) bool {
	return len(lines) >= len(want) && slices.EqualFunc(lines[:len(want)], want, func(a, b string) bool { return oneLine(a) == oneLine(b) })
}
