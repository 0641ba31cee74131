package media_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"go.uber.org/zap"

	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
	"hermesd/gateway/media"
)

// A giver is a FileFetcher of one file or an error.
type giver struct {
	text string
	err  error
}

func (g giver) Fetch(_ context.Context, _ chat.File, w io.Writer, _ int64) error {
	if g.err != nil {
		return g.err
	}
	_, err := io.WriteString(w, g.text)
	return err
}

func TestFetchErrors(t *testing.T) {
	de, err := i18n.For("de")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		from             chat.FileFetcher
		problem, said    string // English, for the model; German, for the person
		told, downloaded bool
	}{
		"a file":            {from: giver{text: "hello"}, downloaded: true},
		"no files":          {problem: "this platform gives no files"},
		"gone":              {from: giver{err: i18n.Errorf("the file is no longer at Slack")}, problem: "I could not get the file a.txt: the file is no longer at Slack.", said: "Ich konnte die Datei a.txt nicht holen: die Datei ist nicht mehr bei Slack.", told: true},
		"a secret, a stop":  {from: giver{err: errors.New("get https://x/sk-secret refused.")}, problem: "I could not get the file a.txt: get https://x/*** refused.", said: "Ich konnte die Datei a.txt nicht holen: get https://x/*** refused.", told: true},
		"more than is kept": {from: giver{text: strings.Repeat("x", 1001)}, problem: "I could not get the file a.txt: the file is larger than the 1000 bytes that can be taken.", said: "Ich konnte die Datei a.txt nicht holen: die Datei ist größer als die 1000 bytes, die ich annehme.", told: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := media.Fetcher{
				Cache: open(t, t.TempDir(), limits), From: func(chat.Account) (chat.FileFetcher, bool) { return tt.from, tt.from != nil }, Limit: 1 << 20,
				Mask: func(s string) string { return strings.ReplaceAll(s, "sk-secret", "***") }, Log: zap.NewNop(),
			}
			f, wrong := g.Fetch(t.Context(), chat.Account{Platform: chat.Slack}, chat.File{Name: "a.txt"})
			if f.FetchError != tt.problem || (f.Path != "") != tt.downloaded || (wrong != nil) != tt.told {
				t.Errorf("problem %q, path %q, error %v", f.FetchError, f.Path, wrong)
			}
			if wrong != nil && de.LocalizeError(wrong) != tt.said {
				t.Errorf("the person reads %q, want %q", de.LocalizeError(wrong), tt.said)
			}
		})
	}
}
