package media_test

import (
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"hermesd/gateway/chat"
	"hermesd/gateway/media"
)

func TestName(t *testing.T) {
	for name, want := range map[string]string{
		"":                                      "",
		"report.pdf":                            "report.pdf",
		"Résumé 2024 – 中文.docx":                 "Résumé 2024 – 中文.docx",
		"👩‍👩‍👧.png":                             "👩‍👩‍👧.png",
		"../../etc/passwd":                      ".._.._etc_passwd",
		`..\x`:                                  ".._x",
		"a\nb\tc\x00d\x1b[31me":                 "a b cd[31me",
		"photo\u202egnp.exe":                    "photognp.exe",
		"\u2066a\u2069\u200fb":                  "ab",
		"\ufeffa\u200bb\u00ad":                  "ab",
		"a\u2028b\u2029c\u0085":                 "a b c",
		"  a   b  ":                             "a b",
		"\xffa":                                 "\uFFFDa",
		"\x00\x01":                              "file",
		"...":                                   "file",
		"\u200d":                                "file",
		strings.Repeat("é", 300) + ".tar.gz":    strings.Repeat("é", 236) + "….gz",
		"a." + strings.Repeat("x", 300):         "a." + strings.Repeat("x", 237) + "…",
		strings.Repeat("a", 240):                strings.Repeat("a", 240),
		strings.Repeat("a", 235) + "é.jpg":      strings.Repeat("a", 235) + "é.jpg",
		strings.Repeat("👩", 241):                strings.Repeat("👩", 239) + "…",
		strings.Repeat("\u202e", 500) + "a.txt": "a.txt",
	} {
		if got := media.Name(name); got != want {
			t.Errorf("Name(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestNameIsAlwaysFitToBeShown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "name")
		got := media.Name(in)
		bad := func(r rune) bool {
			return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '/' || r == '\\'
		}
		if !utf8.ValidString(got) || utf8.RuneCountInString(got) > 240 || strings.ContainsFunc(got, bad) || (got == "") != (in == "") {
			t.Fatalf("Name(%q) = %q", in, got)
		}
		if again := media.Name(got); again != got {
			t.Fatalf("Name(%q) = %q, and of that %q", in, got, again)
		}
	})
}

func TestDetectType(t *testing.T) {
	c := open(t, t.TempDir(), media.Config{MaxBytes: 1 << 20, CacheBytes: 1 << 20})
	const png, ogg, zip, elf = "\x89PNG\r\n\x1a\n", "OggS\x00\x02", "PK\x03\x04", "\x7fELF\x02\x01\x01\x00"
	for _, k := range []struct{ name, content, declared, mime, extension string }{
		{"picture", png, "image/png", "image/png", ".png"},
		{"picture that is declared as another", png, "image/jpeg", "image/png", ".png"},
		{"picture that is declared as text", png, "text/plain", "image/png", ".png"},
		{"photo", "\xff\xd8\xff\xe0", "", "image/jpeg", ".jpg"},
		{"webp sticker", "RIFF\x00\x00\x00\x00WEBPVP8 ", "", "image/webp", ".webp"},
		{"voice", ogg, "audio/ogg", "audio/ogg", ".ogg"},
		{"voice in opus", ogg, "audio/ogg; codecs=opus", "audio/ogg", ".ogg"},
		{"video note", "\x00\x00\x00\x18ftypisom", "video/mp4", "video/mp4", ".mp4"},
		{"voice memo", "\x00\x00\x00\x18ftypM4A ", "", "audio/mp4", ".m4a"},
		{"iPhone photo", "\x00\x00\x00\x18ftypheic", "image/jpeg", "image/heic", ".heic"},
		{"song with a tag", "ID3\x03", "", "audio/mpeg", ".mp3"},
		{"song without a tag", "\xff\xfb\x90\x00", "", "audio/mpeg", ".mp3"},
		{"document", zip, "application/vnd.openxmlformats-officedocument.wordprocessingml.document", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", ".zip"},
		{"archive that is declared as a picture", zip, "image/png", "application/zip", ".zip"},
		{"notes", "# Notes", "text/markdown", "text/markdown", ".txt"},
		{"data", `{"a": 1}`, "application/json", "application/json", ".txt"},
		{"text that is declared as a picture", "hello", "image/png", "text/plain", ".txt"},
		{"page", "<!DOCTYPE html><p>", "text/plain", "text/html", ".html"},
		{"program", elf, "application/x-executable", "application/x-executable", ".bin"},
		{"program that is declared as a picture", elf, "image/png", "application/octet-stream", ".bin"},
		{"program that is declared as text", elf, "text/plain", "application/octet-stream", ".bin"},
		{"nonsense declared", "hello", "no/no/no;;\n", "text/plain", ".txt"},
		{"header injection declared", "hello", "text/x\r\nX: y", "text/plain", ".txt"},
		{"nothing", "", "", "text/plain", ".txt"},
	} {
		f := save(t, c, k.content, chat.File{Name: "evil.sh", MIME: k.declared})
		if f.MIME != k.mime || filepath.Ext(f.Path) != k.extension {
			t.Errorf("%s: got %s at *%s, want %s at *%s", k.name, f.MIME, filepath.Ext(f.Path), k.mime, k.extension)
		}
	}
}
