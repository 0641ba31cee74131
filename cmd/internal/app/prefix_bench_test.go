package app_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hermesd/agent/prompt"
	"hermesd/cmd/internal/app"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/session"
)

// BenchmarkPrompt builds the prompt of a session in a home directory with 300 skills
// and a context file of 20,000 characters: with no cache file, in a new process with
// a cache file, and repeatedly.
func BenchmarkPrompt(b *testing.B) {
	home := b.TempDir()
	write := func(name, text string) {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	for i := range 300 {
		write(fmt.Sprintf("skills/category-%02d/skill-%03d/SKILL.md", i%12, i), fmt.Sprintf("---\nname: skill-%03d\ndescription: %s\n---\n\n%s", i,
			strings.Repeat("Reviews code, structured by file. ", 4), strings.Repeat("Look at each change and say what is wrong with it.\n", 60)))
	}
	write("workspace/AGENTS.md", strings.Repeat("Run the tests before each commit, and keep functions small.\n", 333))
	write("memories/MEMORY.md", strings.Repeat("the server is called blue\n§\n", 60))
	write("memories/USER.md", strings.Repeat("she likes short answers\n§\n", 40))
	write("config.yaml", "model: {provider: demo}\n")
	makeOld(b, filepath.Join(home, "skills"))
	c, report, err := config.Load(config.Options{Home: home, Env: func(string) (string, bool) { return "", false }})
	if err != nil {
		b.Fatal(err)
	}
	open := func() func(session.Record) prompt.Prefix {
		build, err := app.Prompts(c, report, home)
		if err != nil {
			b.Fatal(err)
		}
		return build
	}
	rec := session.Record{ID: "s", OwnersOnly: true}
	check := func(p prompt.Prefix) {
		if n := strings.Count(p.System(), "\n- skill-"); n != 300 || len(p.System()) < 20_000 {
			b.Fatalf("%d skills in %d bytes", n, len(p.System()))
		}
	}
	check(open()(rec))
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			if err := os.Remove(filepath.Join(home, "cache", "skills.json")); err != nil {
				b.Fatal(err)
			}
			build := open()
			b.StartTimer()
			check(build(rec))
		}
	})
	b.Run("restart", func(b *testing.B) {
		for b.Loop() {
			check(open()(rec))
		}
	})
	b.Run("warm", func(b *testing.B) {
		build := open()
		check(build(rec))
		for b.Loop() {
			check(build(rec))
		}
	})
}

// makeOld makes everything below dir an hour old, because modification times of just now
// are not trusted.
func makeOld(b *testing.B, dir string) {
	b.Helper()
	then := time.Now().Add(-time.Hour)
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chtimes(path, then, then))
	})
	if err != nil {
		b.Fatal(err)
	}
}
