package app_test

import (
	"bytes"
	"context"
	"image"
	"image/jpeg"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hermesd/gateway/chat"
	"hermesd/internal/sim/llm"
	"hermesd/internal/sim/telegram"
)

// call calls Telegram with the bot's token, as another program would.
func (w *world) call(method string, params url.Values) {
	w.Helper()
	req, err := http.NewRequestWithContext(w.ctx, http.MethodGet, w.api+"/bot"+w.bot.Token()+"/"+method+"?"+params.Encode(), nil)
	w.must(err)
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	w.must(err)
	w.must(resp.Body.Close())
}

// up restores Telegram.
func (w *world) up() { w.Helper(); w.again(w.tg.Up) }

// again restores a server. Another process may have its port for a moment.
func (w *world) again(up func() error) {
	w.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := up()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-w.ctx.Done():
			w.fatal(err.Error())
		}
	}
}

// slowFaults come first because they take longest.
func slowFaults() []fault {
	const echoed = "echo: hello"
	return []fault{
		{
			sentence: "another process that polls with the same token (409) is said, and when it is gone the daemon goes on",
			play: func(w *world) {
				w.await("the daemon waits for updates", func() bool {
					cs := w.tg.Ledger().Calls("getUpdates")
					return len(cs) > 1 && cs[len(cs)-1].Done.IsZero()
				})
				w.call("getUpdates", url.Values{"timeout": {"1"}})
				w.health(chat.Retrying, "another process polls with this token")
				w.ask("hello")
			},
			shows: []string{echoed}, ends: []string{"replied"},
			logs: []string{"another process polls"},
		},
		{
			sentence: "a poll that Telegram never answers is cut, said, and made again",
			cold:     true,
			play: func(w *world) {
				w.tg.Inject(telegram.Fault{Method: "getUpdates", Kind: telegram.Hang})
				w.say("hello")
				w.start()
				w.health(chat.Retrying, "no answer to a poll")
				w.sees(echoed)
			},
			shows: []string{echoed}, ends: []string{"replied"},
			logs: []string{"no answer to a poll; the connection was cut and is rebuilt"},
		},
		{
			sentence: "a webhook that was left in the way is taken away, and that is said",
			cold:     true, server: telegram.Options{Webhooks: nowhere{}},
			play: func(w *world) {
				w.call("setWebhook", url.Values{"url": {"https://old.test/hook"}})
				w.say("hello")
				w.start()
				w.logs("a webhook at old.test takes the messages; it is deleted")
				w.sees(echoed)
				w.online()
			},
			shows: []string{echoed}, ends: []string{"replied"},
			logs: []string{"a webhook at old.test"},
		},
	}
}

// nowhere is an address at which no webhook deliveries arrive.
type nowhere struct{}

func (nowhere) RoundTrip(*http.Request) (*http.Response, error) { return nil, context.DeadlineExceeded }

func networkFaults() []fault {
	return []fault{
		{
			sentence: "Telegram off the network is said, and what was written meanwhile is answered when it is back",
			play: func(w *world) {
				w.tg.Down()
				w.health(chat.Retrying, "")
				w.say("hello")
				w.up()
				w.sees("echo: hello")
				w.online()
			},
			shows: []string{"echo: hello"}, ends: []string{"replied"},
			logs: []string{"warn poll"},
		},
		{
			sentence: "an answer that is ready while Telegram is off the network comes once when it is back",
			play: func(w *world) {
				w.hold("on")
				w.confirmed()
				w.tg.Down()
				w.release()
				w.logs("not sent", "Telegram could not be reached")
				w.up()
				w.sees("echo: hold on")
			},
			shows: []string{"echo: hold on"}, ends: []string{"replied"},
			logs: []string{"not sent"},
		},
		{
			sentence: "a message into a black hole comes again when the connection breaks, and says so",
			play: func(w *world) {
				in := w.tg.Inject(telegram.Fault{Method: "sendMessage", Kind: telegram.Hang})
				w.say("hello")
				w.await("it is swallowed", func() bool { return in.Hits() == 1 })
				w.tg.Down()
				w.up()
				w.sees("(may be a repeat)\necho: hello")
			},
			shows: []string{"(may be a repeat)\necho: hello"}, ends: []string{"replied"},
			logs: []string{"the connection broke before Telegram answered"},
		},
		{
			sentence: "a message that arrived but whose answer is swallowed makes a repeat that says so",
			play: func(w *world) {
				w.tg.Inject(telegram.Fault{Method: "sendMessage", Kind: telegram.HangAfter})
				w.say("hello")
				w.sees("echo: hello")
				w.tg.Down()
				w.up()
				w.sees("(may be a repeat)\necho: hello")
			},
			shows: []string{"echo: hello", "(may be a repeat)\necho: hello"}, ends: []string{"replied"},
			logs: []string{"the connection broke before Telegram answered"},
		},
		{
			sentence: "a daemon that is told to stop sends what its turns still say, whole and once",
			server:   telegram.Options{Latency: 20 * time.Millisecond},
			play: func(w *world) {
				n := w.model.Count()
				w.say("pages please")
				w.must(w.model.Await(w.ctx, n+1))
				w.confirmed()
				stopped := make(chan struct{})
				go func() { w.stop(); close(stopped) }() // waited for below
				w.release()
				<-stopped
				same(w.T, "when the daemon has ended ann sees", pages(), w.visible(w.chat))
				w.start()
			},
			shows: pages(), ends: []string{"replied"},
		},
	}
}

// newest returns the model's newest request.
func (w *world) newest() llm.Request {
	rs := w.model.Requests()
	return rs[len(rs)-1].Request
}

// posting sends a file with the caption "look" and waits for an answer.
func posting(m telegram.Media, sees string, judge func(w *world)) func(*world) {
	return func(w *world) {
		w.chat.Post(telegram.Post{From: w.ann, Text: "look", Media: &m})
		w.sees(sees)
		judge(w)
	}
}

// stored checks that the model got the path of a file with that content.
func stored(data string) func(*world) {
	return func(w *world) {
		_, path, _ := strings.Cut(w.newest().Newest(), "stored at ")
		path, _, _ = strings.Cut(path, "]")
		raw, err := os.ReadFile(path)
		if err != nil || string(raw) != data || !strings.HasPrefix(path, filepath.Join(w.home, "cache", "media")) {
			w.Errorf("the model was told %q: %v", w.newest().Newest(), err)
		}
		w.f.shows = []string{"echo: " + w.newest().Newest()}
	}
}

func fileFaults() []fault {
	var picture bytes.Buffer
	if err := jpeg.Encode(&picture, image.NewGray(image.Rect(0, 0, 8, 8)), nil); err != nil {
		panic(err) // cannot fail: the encoder writes into memory
	}
	none := func(*world) {}
	replied := []string{"replied"}
	const (
		voice = "OggS\x00\x02\x00\x00voice\xff\xfe"
		lost  = "I could not get the file notes.txt: "
	)
	return []fault{
		{
			sentence: "a photo goes to the model as an image",
			play: posting(telegram.Media{Kind: telegram.Photo, Data: picture.Bytes()}, "echo: look", func(w *world) {
				if !slices.ContainsFunc(w.newest().Last().Blocks, func(b llm.Block) bool { return b.Type == "image" }) {
					w.Errorf("the model was given %+v", w.newest().Last())
				}
				if n := w.tg.Ledger().Counts().ByMethod["file"]; n != 1 {
					w.Errorf("%d downloads", n)
				}
			}),
			shows: []string{"echo: look"}, ends: replied,
		},
		{
			sentence: "a text document goes to the model as text",
			play: posting(telegram.Media{Kind: telegram.Document, Name: "notes.txt", MIME: "text/plain", Data: []byte("buy milk")}, "buy milk", func(w *world) {
				w.f.shows = []string{"echo: " + w.newest().Newest()}
			}),
			ends: replied,
		},
		{
			sentence: "a voice message goes to the model as a path",
			play:     posting(telegram.Media{Kind: telegram.Voice, MIME: "audio/ogg", Seconds: 3, Data: []byte(voice)}, "stored at", stored(voice)),
			ends:     replied,
		},
		{
			sentence: "a file over 20 MB is said in words, and the message is answered without it",
			play:     posting(telegram.Media{Kind: telegram.Document, Name: "big.bin", Size: 25 << 20, Data: []byte("x")}, "echo: look", none),
			shows: []string{
				"I could not get the file big.bin: the file is larger than 20 MB, the most a bot can download from Telegram.",
				`echo: look` + "\n" + `[file "big.bin" could not be had: "I could not get the file big.bin: the file is larger than 20 MB, the most a bot can download from Telegram."]`,
			},
			ends: replied,
			logs: []string{"warn file"},
		},
		{
			sentence: "a download that fails is said in words, and the message is answered without it",
			play: func(w *world) {
				w.tg.Inject(telegram.Fault{Method: "file", Kind: telegram.Fail, Status: 500})
				posting(telegram.Media{Kind: telegram.Document, Name: "notes.txt", MIME: "text/plain", Data: []byte("buy milk")}, "echo: look", none)(w)
			},
			shows: []string{
				lost + "the server answers 500 instead of the file.",
				`echo: look` + "\n" + `[file "notes.txt" could not be had: "` + lost + `the server answers 500 instead of the file."]`,
			},
			ends: replied,
			logs: []string{"warn file"},
		},
		{
			sentence: "a file that Telegram no longer has is said in words, and the message is answered without it",
			play: func(w *world) {
				w.tg.Inject(telegram.Fault{Method: "getFile", Kind: telegram.Fail, Status: 400, Description: "Bad Request: invalid file_id"})
				posting(telegram.Media{Kind: telegram.Document, Name: "notes.txt", MIME: "text/plain", Data: []byte("buy milk")}, "echo: look", none)(w)
			},
			shows: []string{
				lost + "the file is no longer at Telegram.",
				`echo: look` + "\n" + `[file "notes.txt" could not be had: "` + lost + `the file is no longer at Telegram."]`,
			},
			ends: replied,
			logs: []string{"warn file"},
		},
	}
}
