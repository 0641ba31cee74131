package skills_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"hermesd/agent/injection"
	"hermesd/agent/skills"
)

// many returns a fixture of 300 skills in 12 categories, some with further
// files.
func many(b testing.TB) *world {
	w := newWorld(b)
	for i := range 300 {
		name := fmt.Sprintf("skill-%03d", i)
		dir := fmt.Sprintf("category-%02d/%s/", i%12, name)
		w.write(dir+"SKILL.md", "---\nname: "+name+"\ndescription: \""+strings.Repeat("Reviews code: structured, by file. ", 4)+"\"\n"+
			"version: 1.0.0\nauthor: somebody\nlicense: MIT\nplatforms: [linux, macos]\nmetadata:\n  hermes:\n    tags: [code, review]\n---\n\n"+
			strings.Repeat("Look at each change and say what is wrong with it.\n", 60))
		if i%3 == 0 {
			w.write(dir+"references/more.md", "more")
		}
	}
	w.age()
	return w
}

// guarded returns the options of w with the scan that the daemon uses.
func (w *world) guarded() skills.Options {
	o := w.options()
	o.Scan = func(text string) []string {
		var ids []string
		for _, f := range injection.Scan(text) {
			ids = append(ids, f.ID)
		}
		return ids
	}
	return o
}

func build(b *testing.B, l *skills.Library) {
	if got := l.Catalog().Index(skills.Filter{}); strings.Count(got, "\n- ") != 300 {
		b.Fatalf("the index has %d skills", strings.Count(got, "\n- "))
	}
}

// BenchmarkWarm builds the index in a daemon that has built it before.
func BenchmarkWarm(b *testing.B) {
	w := many(b)
	l := w.library(w.guarded())
	build(b, l)
	for b.Loop() {
		build(b, l)
	}
}

// BenchmarkRestart makes the first build in a new process, with a cache file.
func BenchmarkRestart(b *testing.B) {
	w := many(b)
	build(b, w.library(w.guarded()))
	for b.Loop() {
		build(b, w.library(w.guarded()))
	}
}

// BenchmarkCold makes the very first build, without a cache file.
func BenchmarkCold(b *testing.B) {
	w := many(b)
	for b.Loop() {
		build(b, w.library(w.guarded()))
		b.StopTimer()
		if err := os.Remove(w.cache); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkOneChanged builds after one of the skills was changed.
func BenchmarkOneChanged(b *testing.B) {
	w := many(b)
	l := w.library(w.guarded())
	for b.Loop() {
		b.StopTimer()
		w.write("category-01/skill-001/SKILL.md", skill("skill-001", fmt.Sprint(b.N)))
		b.StartTimer()
		build(b, l)
	}
}
