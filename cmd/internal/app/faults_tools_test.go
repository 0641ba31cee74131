package app_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hermesd/internal/sim/dns"
	"hermesd/internal/sim/telegram"
)

// processesWith returns the processes of this machine with mark in their command line.
func (w *harness) processesWith(mark string) (out []string) {
	w.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	w.must(err)
	for _, path := range lines {
		raw, err := os.ReadFile(path)
		if err == nil && bytes.Contains(raw, []byte(mark)) {
			out = append(out, string(bytes.ReplaceAll(raw, []byte{0}, []byte{' '})))
		}
	}
	return out
}

// waitProcessesEnd waits until no process has mark in its command line.
func (w *harness) waitProcessesEnd(mark string) {
	w.Helper()
	w.waitFor("nothing of "+mark+" runs", func() bool { return len(w.processesWith(mark)) == 0 })
}

// processMark returns a string that is unique to the command lines of this harness.
func (w *harness) processMark() string { return fmt.Sprintf("%d.%d", 600+os.Getpid(), w.ann.ID()) }

func hungTools() []hostileInput {
	hang := func(words ...string) func(*harness) {
		return func(w *harness) {
			w.askBot(use("terminal", fmt.Sprintf(`{"command":"setsid sleep %s & sleep %s"}`, w.processMark(), w.processMark())), words...)
			w.waitProcessesEnd(w.processMark())
		}
	}
	return []hostileInput{
		{
			name: "a command that hangs", needsSandbox: true, config: "terminal:\n  timeout: 1s\n",
			play:   hang("result: ", "it took longer than its timeout of 1s, and all that it had started was ended with it"),
			memory: little, disk: small,
		},
		{
			name: "a turn that hangs in a tool", needsSandbox: true, config: "gateway:\n  turn_timeout: 4s\n", failed: true,
			play:   hang("⚠️ Nothing happened for too long, so I gave up."),
			memory: little, disk: small,
		},
	}
}

// bomb starts two copies of itself and burns the processor, like a fork bomb.
const bomb = "sh \"$0\" \"$1\" & sh \"$0\" \"$1\" & while :; do :; done\n"

// untilForkFails reads the output of a bomb, prints the first line that says that fork
// failed, lasts two more seconds, and starts no process.
const untilForkFails = `while read -r l; do case $l in *fork*) echo $l; end=$((SECONDS+2)); while [ $SECONDS -lt $end ]; do :; done; break;; esac; done `

func runawayTools() []hostileInput {
	return []hostileInput{
		{
			name: "a shell that floods",
			play: func(w *harness) {
				w.askBot(use("terminal", `{"command":"yes I am here to stay"}`), "result: I am here", "it wrote more than 64 MiB", "is in "+w.path("cache/terminal"))
			},
			memory: 2 * little, disk: 64<<20 + small,
		},
		{
			name: "a fork bomb in the sandbox", needsSandbox: true, config: "terminal:\n  timeout: 2m\n  max_processes: 301\n",
			before: func(w *harness) {
				w.must(os.MkdirAll(w.path("workspace"), 0o700))
				w.writeFile("workspace/bomb.sh", bomb)
			},
			play: func(w *harness) {
				w.askBot(use("terminal", `{"command":":(){ :|:& };:"}`), "result: ", "it starts copies of itself without end")
				w.askBot(use("terminal", `{"command":"`+untilForkFails+`< <(sh bomb.sh `+w.processMark()+` 2>&1)"}`), "result: ", "fork")
				w.waitProcessesEnd(w.processMark())
			},
			memory: little, disk: small,
		},
	}
}

// A trap is a hostile web server.
type trap struct {
	*httptest.Server
	hits atomic.Int64
}

func newTrap(w *harness, h http.HandlerFunc) *trap {
	t := &trap{}
	t.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		t.hits.Add(1)
		h(rw, r)
	}))
	w.Cleanup(func() { t.CloseClientConnections(); t.Close() })
	return t
}

func (t *trap) host() string { return strings.TrimPrefix(t.URL, "http://") }

// extractPage makes ann let the agent read the address.
func (w *harness) extractPage(address string, words ...string) {
	w.Helper()
	w.askBot(use("web_extract", fmt.Sprintf(`{"urls":[%q]}`, address)), append(words, "result: ")...)
}

// endlessPage writes text until the client stops reading.
func endlessPage(piece string, pause time.Duration) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/plain")
		for r.Context().Err() == nil {
			if _, err := rw.Write([]byte(piece)); err != nil {
				return
			}
			_ = http.NewResponseController(rw).Flush()
			select {
			case <-time.After(pause):
			case <-r.Context().Done():
			}
		}
	}
}

// serveTrap makes the daemon of w read pages of a trap as if it were public.
func (w *harness) serveTrap(h http.HandlerFunc) *trap {
	t := newTrap(w, h)
	w.webTools.Dial.Allow = []string{t.host()}
	return t
}

func webTraps() []hostileInput {
	var at, inner *trap // of the current harness
	var names *dns.Server
	read := func(words ...string) func(*harness) { return func(w *harness) { w.extractPage(at.URL, words...) } }
	return []hostileInput{
		{
			name:   "a page that never ends, fast",
			before: func(w *harness) { at = w.serveTrap(endlessPage(strings.Repeat("more ", 2000), 0)) },
			play:   read("only its first 2 MB were read", "more more"),
			memory: 2 * little, disk: small,
		},
		{
			name: "a page that never ends, slow",
			before: func(w *harness) {
				at = w.serveTrap(endlessPage("more ", 50*time.Millisecond))
				w.webTools.Timeout = 2 * time.Second
			},
			play:   read("the page did not come within 2s"),
			memory: little, disk: small,
		},
		{
			name: "a redirect to a private address",
			before: func(w *harness) {
				inner = newTrap(w, func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("the secret")) })
				at = w.serveTrap(func(rw http.ResponseWriter, r *http.Request) {
					http.Redirect(rw, r, map[string]string{"/": inner.URL, "/cloud": "http://169.254.169.254/latest/meta-data/"}[r.URL.Path], http.StatusFound)
				})
			},
			play: func(w *harness) {
				w.extractPage(at.URL+"/", `"127.0.0.1" is not a place to fetch from: it is not an address of the public internet`)
				w.extractPage(at.URL+"/cloud", `"169.254.169.254" is not a place to fetch from`)
				if at.hits.Load() == 0 || inner.hits.Load() != 0 {
					w.Errorf("%d requests to the page, %d to where it leads", at.hits.Load(), inner.hits.Load())
				}
			},
			memory: little, disk: small,
		},
		{
			name: "DNS that changes its answer",
			before: func(w *harness) {
				// The first DNS answer, for clients that check before they connect,
				// is public.
				names = dns.New(map[string][]string{"turns.test": {"93.184.216.34", "127.0.0.1"}, "both.test": {"127.0.0.1 10.0.0.1"}})
				w.Cleanup(names.Close)
				inner = newTrap(w, func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("the secret")) })
				w.webTools.Dial.Resolver = names.Resolver()
				if first, err := names.Resolver().LookupHost(w.ctx, "turns.test"); err != nil || !slices.Equal(first, []string{"93.184.216.34"}) {
					w.Fatalf("%v, %v", first, err)
				}
			},
			play: func(w *harness) {
				_, port, _ := strings.Cut(inner.host(), ":")
				asked := names.Asked("turns.test")
				w.extractPage("http://turns.test:"+port+"/", `"127.0.0.1" is not a place to fetch from: it is not an address of the public internet`)
				w.extractPage("http://both.test:"+port+"/", "is not a place to fetch from")
				if names.Asked("turns.test") == asked || inner.hits.Load() != 0 {
					w.Errorf("asked %d times, %d requests", names.Asked("turns.test")-asked, inner.hits.Load())
				}
			},
			memory: little, disk: small,
		},
	}
}

// sendFile sends a file as ann and returns the next message of the bot that contains
// all of the words.
func (w *harness) sendFile(m telegram.Media, words ...string) string {
	w.Helper()
	before := w.botTexts()
	w.chat.Post(telegram.Post{From: w.ann, Text: "look", Media: &m})
	return w.waitBotText(before, words...)
}

// maliciousArchive returns an archive whose entries lead out of the directory in which it is
// unpacked.
func maliciousArchive(names ...string) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, n := range names {
		f, err := z.Create(n)
		if err == nil {
			_, err = f.Write([]byte("owned"))
		}
		if err != nil {
			panic(err) // cannot fail: the writer is in memory
		}
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// strayFiles lists the files in and around the home directory outside of the media
// cache, and the files in the cache whose names the daemon did not choose.
func (w *harness) strayFiles() (names []string) {
	w.Helper()
	media := w.path("cache/media")
	err := filepath.WalkDir(filepath.Dir(w.home), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch name := e.Name(); {
		case path == filepath.Join(media, name) && len(name) > 64 && strings.Trim(name[:64], "0123456789abcdef") == "":
		case e.IsDir() || strings.HasPrefix(name, "search.db"), strings.HasPrefix(name, "hermesd"):
		default:
			names = append(names, path)
		}
		return nil
	})
	w.must(err)
	return names
}

func deceptiveFiles() []hostileInput {
	const gigabyte = 1 << 30
	hostileNames := []string{"../../../owned", "/etc/cron.d/owned", `..\..\owned.exe`, "a/../../../../owned"}
	return []hostileInput{
		{
			name: "a download that never ends",
			play: func(w *harness) {
				in := w.tg.Inject(telegram.Fault{Method: "file", Kind: telegram.Hang})
				w.chat.Post(telegram.Post{From: w.ann, Text: "look", Media: &telegram.Media{Kind: telegram.Document, Name: "a.bin", Data: []byte("x")}})
				w.waitFor("the file is asked for", func() bool { return in.Hits() == 1 })
				w.askBot("and this?", "and this?")
			},
			memory: little, disk: small,
		},
		{
			name: "an attachment of 1 GB",
			play: func(w *harness) {
				w.sendFile(telegram.Media{Kind: telegram.Document, Name: "huge.bin", Size: gigabyte, Data: []byte("x")},
					"I could not get the file huge.bin: the file has 1 GB and at most 50 MB can be taken.")
			},
			memory: little, disk: small,
		},
		{
			name: "an attachment of 1 GB that does not say so",
			play: func(w *harness) {
				w.sendFile(telegram.Media{Kind: telegram.Document, Name: "sly.bin", Size: gigabyte, Unsaid: true, Data: []byte("x")},
					"I could not get the file sly.bin: the file is larger than 20 MB, the most a bot can download from Telegram.")
			},
			memory: little, disk: small,
		},
		{
			name: "a zip of names with ..",
			play: func(w *harness) {
				before := w.strayFiles()
				w.sendFile(telegram.Media{Kind: telegram.Document, Name: "a.zip", MIME: "application/zip", Data: maliciousArchive(hostileNames...)}, "echo: look", `[file "a.zip", application/zip, `, "stored at "+w.path("cache/media"))
				for _, n := range hostileNames {
					w.sendFile(telegram.Media{Kind: telegram.Document, Name: n, Data: []byte("owned " + n)}, "echo: look", "owned")
				}
				same(w.T, "files", before, w.strayFiles())
			},
			memory: little, disk: small,
		},
	}
}

// The report about one file must not delay the answer for as long as the rate limit
// delays sixty messages.
func TestAttachmentErrorsAreReportedTogether(t *testing.T) {
	t.Parallel()
	const many = 60
	w := newHarness(t, fault{})
	w.start()
	w.waitConnected()
	w.holdModel("on")
	var names []string
	for i := range many {
		names = append(names, fmt.Sprintf("the file h%d.bin: the file has 1 GB", i))
		w.chat.Post(telegram.Post{From: w.ann, Media: &telegram.Media{Kind: telegram.Document, Name: fmt.Sprintf("h%d.bin", i), Size: 1 << 30}})
	}
	w.say("and now?")
	w.releaseModel()
	w.waitFor("the model is asked", func() bool { return strings.Contains(w.newestRequest().Newest(), "and now?") })
	w.waitFor("the turn is over", func() bool { // otherwise the next message joins this turn
		st := w.app.Pipeline().Control().Status()
		return st.TurnsRunning == 0 && st.TurnsQueued == 0
	})
	w.askEcho(last)
	var told []string
	for _, m := range w.chat.FromBots() {
		if strings.Contains(m.Text, "I could not get the file") && !strings.HasPrefix(m.Text, "echo") {
			told = append(told, m.Text)
		}
	}
	if n := len(told); n == 0 || n > many/3 {
		t.Errorf("%d messages", n)
	}
	if all := (logLine{text: strings.Join(told, "\n")}); !all.has(names...) {
		t.Errorf("not all are told: %q", told)
	}
}
