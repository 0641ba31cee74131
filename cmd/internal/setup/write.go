package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"hermesd/adapters/slack"
	"hermesd/agent/contextfile"
	"hermesd/agent/prompt"
	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/setup/atomicfiles"
	"hermesd/gateway/access"
	"hermesd/gateway/command"
	"hermesd/gateway/i18n"
)

// check returns the problems of the planned configuration.
func (p *Plan) check() []config.Problem {
	_, _, err := p.load()
	var bad *config.Error
	switch {
	case err == nil && p.answers.Memory != nil && p.answers.Memory.Provider != "":
		return p.checkMemory()
	case err == nil:
		return nil
	case !errors.As(err, &bad):
		return []config.Problem{{Text: err.Error()}}
	}
	return bad.Problems
}

// checkMemory returns the problem of the planned memory provider, if it cannot be used.
func (p *Plan) checkMemory() []config.Problem {
	opened, err := p.openMemory()
	if err != nil {
		return []config.Problem{{File: p.s.conf.path, Key: "memory.provider", Text: err.Error()}}
	}
	opened.close()
	return nil
}

// load loads the planned configuration as it would be, from memory: files with secrets are
// written only where they belong. The variables of .env come after those of the environment.
func (p *Plan) load() (*config.Config, config.Report, error) {
	return config.Load(config.Options{Home: p.s.Home, File: p.s.conf.path, Content: append([]byte{}, p.doc.Bytes()...), Env: func(v string) (string, bool) { //nolint:wrapcheck // names the file
		if s, ok := p.s.o.Env(v); ok {
			return s, true
		}
		s, ok := p.vars[v]
		return s, ok
	}})
}

// Write creates the home directory (mode 0700) and writes all files, or none.
// Afterwards it loads the configuration again and restores the old files if it is
// invalid. After an error the files are unchanged, or the next Load completes an
// interrupted write. Finally it writes SOUL.md, unless somebody has written one.
func (p *Plan) Write() error {
	if len(p.Changes) == 0 {
		return nil
	}
	if err := os.MkdirAll(p.s.Home, 0o700); err != nil {
		return fmt.Errorf("make the home: %w", err)
	}
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(p.s.conf.path); err == nil {
		mode = info.Mode().Perm()
	}
	// .env comes first: unused keys are harmless, a model without its key is not.
	files := []atomicfiles.File{
		{Path: p.s.dot.path, Exists: p.s.dot.exists, Old: p.s.dot.content, New: p.dot, Mode: 0o600},
		{Path: p.s.conf.path, Exists: p.s.conf.exists, Old: p.s.conf.content, New: p.doc.Bytes(), Mode: mode},
	}
	if p.own.exists {
		info, err := os.Stat(p.own.path)
		if err != nil {
			return err //nolint:wrapcheck // names the file
		}
		files = append(files, atomicfiles.File{Path: p.own.path, Exists: true, Old: p.own.content, New: p.ownNew, Mode: info.Mode().Perm()})
	}
	files = slices.DeleteFunc(files, func(f atomicfiles.File) bool { return !f.Exists && len(f.New) == 0 })
	if err := atomicfiles.Write(p.s.Home, files...); err != nil {
		return err //nolint:wrapcheck // complete as it is
	}
	c, _, err := config.Load(config.Options{Home: p.s.Home, File: p.s.o.File, Env: p.s.o.Env})
	if err != nil {
		return errors.Join(fmt.Errorf("what was written is not valid, so the old files are put back: %w", err), restoreFiles(p.s.Home, files))
	}
	_, err = contextfile.WriteStarterSoul(p.s.Home, prompt.Identity(c.Agent.Name), prompt.Identity(""))
	return err //nolint:wrapcheck // complete as it is
}

// restoreFiles writes the old contents back.
func restoreFiles(home string, files []atomicfiles.File) error {
	var all error
	var there []atomicfiles.File
	for _, f := range files {
		if !f.Exists {
			all = errors.Join(all, os.Remove(f.Path))
			continue
		}
		f.Old, f.New = f.New, f.Old
		there = append(there, f)
	}
	return errors.Join(all, atomicfiles.Write(home, there...))
}

// recoverWrite completes an interrupted Write and returns a text about it, or "" if
// there was none.
func recoverWrite(home string) (string, error) {
	done, kept, err := atomicfiles.Recover(home)
	switch {
	case err != nil || !done:
		return "", err //nolint:wrapcheck // complete as it is
	case len(kept) > 0:
		return fmt.Sprintf("An earlier setup was cut off, and is over now; %s was changed since and stays as it is.", strings.Join(kept, ", ")), nil
	}
	return "An earlier setup was cut off; what it had begun is finished now.", nil
}

// SlackManifest returns the manifest of the Slack app with the commands of owners,
// in the language of c, or in English if c is nil.
func SlackManifest(c *config.Config) string {
	var say i18n.Printer
	if c != nil {
		say, _ = i18n.For(c.Display.Language) // an unknown language is English here
	}
	return slack.Manifest(command.Menu(command.Localized(say, command.Specs()), access.Owner), say)
}
