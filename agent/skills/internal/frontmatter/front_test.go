package frontmatter_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent/skills/internal/frontmatter"
)

// The result without the YAML parser must equal that of the parser.
func FuzzSimple(f *testing.F) {
	for _, s := range []string{
		"name: a\ndescription: Reviews code, by file.\n", "name: a\nname: b\n", "name: true\nversion: null\n", "name: a # b\n", "a: b: c\n",
		"a: b:\n", "a: b\n c\n", "a: b\n\nc: d", "a: |\n b\n", "a: [b]\n", "a: it's \"so\"\n", "a: b \r\n", "a: b\t\n", "a: b, {c} - d ? e ! & * % @\n",
		"a:  b\n", "y: z\n", "n_: e - f#g\n", "a: b\n---\nc: d\n", "a: b\n...\n",
		"a: \"b: c # d\"  \n", "a: 'b\"c' \n", "a: 'b''c'\n", "a: \"b\\n\"\n", "a: \"\"\n", "a: [b, c d,e]\n", "a: []\n", "a: [b,]\n", "a: [1.0, 2-3]\n",
		"a:\n  b: c\n  d:\n    e: [f]\ng: h\n", "a:\n b: c\n  d: e\n", "a:\n  b: c\n d: e\n", "a:\nb: c\n", "a:\n", "a:\n  - b\n", "a: b\n  c: d\n",
		"version: 1.0.0\nallowed-tools: Read\n", "a: 2026-01-02\nb: 0x1F\nc: 1e3\nd: 12:30\n", "a: Grüße, 你好 — é\n", "a: b\u0085c\n", "a: \u2028\n", "\n\na: b\n\n  \nc: d\n",
		"a:\n\n  b: c\n\nd: \"e\"\n", "a: \"b\nc: d\"\n", "a: {b: c}\n", "a: b\na:\n  c: d\n", "a:\n  c: d\na: b\n", " a: b\n c: d\n", "a:\t\n  b: c\n", "a: \tb\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, matter []byte) {
		got, ok := frontmatter.Simple(matter)
		if !ok {
			return
		}
		want, err := frontmatter.Parsed(matter)
		if err != nil {
			t.Fatalf("%q: %v", matter, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q (-yaml +simple):\n%s", matter, diff)
		}
	})
}

func TestTheUsualFrontMatterNeedsNoParser(t *testing.T) {
	matter := "name: review\ndescription: \"Reviews code: structured, by file.\"\nversion: 1.0.0\nallowed-tools: Read\nplatforms: [linux, macos]\n" +
		"metadata:\n  hermes:\n    tags: [code, review]\n    requires_tools: [terminal]\n  author: 'Zoë'\n\nlicense: MIT\n"
	got, ok := frontmatter.Simple([]byte(matter))
	want, err := frontmatter.Parsed([]byte(matter))
	if !ok || err != nil {
		t.Fatalf("read without the parser: %v; by the parser: %v", ok, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
