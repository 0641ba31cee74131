package app_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hermesd/cmd/internal/admin"
	"hermesd/internal/sim/llm"
)

// waitSearchable returns once a search finds text.
func (w *harness) waitSearchable(text string) {
	w.Helper()
	c := w.controlClient()
	w.waitFor("a search finds "+text, func() bool {
		found, err := c.Search(w.ctx, text, 1)
		w.must(err)
		return len(found) > 0
	})
}

// TestSearchSummarizesConversations: if configured, a model summarizes each found
// conversation, and its usage is added to the searching session; if it fails, the
// passages themselves are returned and the log says so.
func TestSearchSummarizesConversations(t *testing.T) {
	t.Parallel()
	for sentence, c := range map[string]struct {
		config, want string
		fails        bool
		asks         int
	}{
		"not asked for":          {want: "[0 user] the boat is green"},
		"asked for":              {config: "session_search: {summarize: true}", want: "They painted it.", asks: 1},
		"the model says nothing": {config: "session_search: {summarize: true}", want: "[0 user] the boat is green", fails: true, asks: 1},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			w := newHarness(t, fault{sentence: sentence})
			m, err := llm.Start(llm.Options{Reply: func(r llm.Request) llm.Reply {
				switch said := r.Newest(); {
				case strings.Contains(said, "<query>") && c.fails:
					return llm.Reply{Text: " "}
				case strings.Contains(said, "<query>"):
					return llm.Reply{Text: "They painted it."}
				case len(r.Results()) > 0:
					return llm.Reply{Text: "found: " + r.Results()[0].Text}
				case said == "which colour":
					return llm.Reply{Calls: []llm.Call{{Name: "session_search", Args: `{"query":"boat"}`}}}
				}
				return llm.Echo(r)
			}})
			w.must(err)
			w.Cleanup(m.Close)
			w.model = m
			w.writeConfig(c.config+"\ndisplay:\n  tool_progress: 'off'", "")
			w.start()
			w.waitConnected()
			w.say("the boat is green")
			w.waitText("echo: the boat is green")
			w.waitSearchable("boat")
			w.say("/new")
			w.waitText("new")
			w.say("which colour")
			w.waitText(c.want)
			asked := slices.DeleteFunc(m.Requests(), func(e llm.Entry) bool { return !strings.Contains(e.Newest(), "<query>") })
			if len(asked) != c.asks {
				t.Fatalf("the model was asked %d times", len(asked))
			}
			if c.asks > 0 && !strings.Contains(asked[0].Newest(), "[0 user] the boat is green") {
				t.Errorf("it was asked %q", asked[0].Newest())
			}
			if c.fails {
				w.waitLog("cannot summarize found conversation")
			}
		})
	}
}

// TestConversationsWithoutAnIndex: if the index cannot be opened, only searches fail.
func TestConversationsWithoutAnIndex(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{})
	w.must(os.MkdirAll(filepath.Join(w.home, "search.db", "full"), 0o700))
	w.start()
	w.waitConnected()
	w.say("the boat is green")
	w.waitText("echo: the boat is green")
	c := w.controlClient()
	if found, err := c.Search(w.ctx, "boat", 1); err == nil || err.Error() != admin.ErrNoIndex.Error() {
		t.Errorf("found %v, %v", found, err)
	}
	recs, err := c.Sessions(w.ctx, 1)
	w.must(err)
	if _, err := c.Delete(w.ctx, string(recs[0].ID)); err != nil {
		t.Error(err)
	}
	w.stop()
}
