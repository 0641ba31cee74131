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

// callBotAPI calls Telegram with the bot's token, as another program would.
func (w *harness) callBotAPI(method string, params url.Values) {
	w.Helper()
	req, err := http.NewRequestWithContext(w.ctx, http.MethodGet, w.telegramAddr+"/bot"+w.bot.Token()+"/"+method+"?"+params.Encode(), nil)
	w.must(err)
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	w.must(err)
	w.must(resp.Body.Close())
}

// restoreTelegram restores Telegram.
func (w *harness) restoreTelegram() { w.Helper(); w.restoreServer(w.tg.Up) }

// restoreServer restores a server. Another process may have its port for a moment.
func (w *harness) restoreServer(up func() error) {
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
			play: func(w *harness) {
				w.waitFor("the daemon waits for updates", func() bool {
					cs := w.tg.Recorder().Calls("getUpdates")
					return len(cs) > 1 && cs[len(cs)-1].Done.IsZero()
				})
				w.callBotAPI("getUpdates", url.Values{"timeout": {"1"}})
				w.waitHealth(chat.Retrying, "another process polls with this token")
				w.askEcho("hello")
			},
			shows: []string{echoed}, ends: []string{"replied"},
			logs: []string{"another process polls"},
		},
		{
			sentence: "a poll that Telegram never answers is cut, said, and made again",
			cold:     true,
			play: func(w *harness) {
				w.tg.Inject(telegram.Fault{Method: "getUpdates", Kind: telegram.Hang})
				w.say("hello")
				w.start()
				w.waitHealth(chat.Retrying, "no answer to a poll")
				w.waitText(echoed)
			},
			shows: []string{echoed}, ends: []string{"replied"},
			logs: []string{"no answer to a poll; the connection was cut and is rebuilt"},
		},
		{
			sentence: "a webhook that was left in the way is taken away, and that is said",
			cold:     true, server: telegram.Options{Webhooks: nowhere{}},
			play: func(w *harness) {
				w.callBotAPI("setWebhook", url.Values{"url": {"https://old.test/hook"}})
				w.say("hello")
				w.start()
				w.waitLog("a webhook at old.test takes the messages; it is deleted")
				w.waitText(echoed)
				w.waitConnected()
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
			play: func(w *harness) {
				w.tg.Down()
				w.waitHealth(chat.Retrying, "")
				w.say("hello")
				w.restoreTelegram()
				w.waitText("echo: hello")
				w.waitConnected()
			},
			shows: []string{"echo: hello"}, ends: []string{"replied"},
			logs: []string{"warn cannot poll"},
		},
		{
			sentence: "an answer that is ready while Telegram is off the network comes once when it is back",
			play: func(w *harness) {
				w.holdModel("on")
				w.waitConfirmed()
				w.tg.Down()
				w.waitLog("cannot poll") // the daemon has seen its connections end: the answer is sent on a new one
				w.releaseModel()
				w.waitLog("not sent", "Telegram could not be reached")
				w.restoreTelegram()
				w.waitText("echo: hold on")
			},
			shows: []string{"echo: hold on"}, ends: []string{"replied"},
			logs: []string{"not sent"},
		},
		{
			sentence: "a message into a black hole comes again when the connection breaks, and says so",
			play: func(w *harness) {
				in := w.tg.Inject(telegram.Fault{Method: "sendMessage", Kind: telegram.Hang})
				w.say("hello")
				w.waitFor("it is swallowed", func() bool { return in.Hits() == 1 })
				w.tg.Down()
				w.restoreTelegram()
				w.waitText("(may be a repeat)\necho: hello")
			},
			shows: []string{"(may be a repeat)\necho: hello"}, ends: []string{"replied"},
			logs: []string{"the connection broke before Telegram answered"},
		},
		{
			sentence: "a message that arrived but whose answer is swallowed makes a repeat that says so",
			play: func(w *harness) {
				w.tg.Inject(telegram.Fault{Method: "sendMessage", Kind: telegram.HangAfter})
				w.say("hello")
				w.waitText("echo: hello")
				w.tg.Down()
				w.restoreTelegram()
				w.waitText("(may be a repeat)\necho: hello")
			},
			shows: []string{"echo: hello", "(may be a repeat)\necho: hello"}, ends: []string{"replied"},
			logs: []string{"the connection broke before Telegram answered"},
		},
		{
			sentence: "a daemon that is told to stop sends what its turns still say, whole and once",
			config:   "gateway:\n  drain_timeout: 1h\n", // the sends have a part of it
			server:   telegram.Options{Latency: 20 * time.Millisecond},
			play: func(w *harness) {
				n := w.model.Count()
				w.say("pages please")
				w.must(w.model.Await(w.ctx, n+1))
				w.waitConfirmed()
				stopped := make(chan struct{})
				go func() { w.stop(); close(stopped) }() // waited for below
				w.releaseModel()
				<-stopped
				same(w.T, "when the daemon has ended ann sees", pages(), w.visibleTexts(w.chat))
				w.start()
			},
			shows: pages(), ends: []string{"replied"},
		},
	}
}

// newestRequest returns the model's newest request.
func (w *harness) newestRequest() llm.Request {
	rs := w.model.Requests()
	return rs[len(rs)-1].Request
}

// postFile sends a file with the caption "look" and waits for an answer.
func postFile(m telegram.Media, sees string, judge func(w *harness)) func(*harness) {
	return func(w *harness) {
		w.chat.Post(telegram.Post{From: w.ann, Text: "look", Media: &m})
		w.waitText(sees)
		judge(w)
	}
}

// checkStoredFile checks that the model got the path of a file with that content.
func checkStoredFile(data string) func(*harness) {
	return func(w *harness) {
		_, path, _ := strings.Cut(w.newestRequest().Newest(), "stored at ")
		path, _, _ = strings.Cut(path, "]")
		raw, err := os.ReadFile(path)
		if err != nil || string(raw) != data || !strings.HasPrefix(path, filepath.Join(w.home, "cache", "media")) {
			w.Errorf("the model was told %q: %v", w.newestRequest().Newest(), err)
		}
		w.fault.shows = []string{"echo: " + w.newestRequest().Newest()}
	}
}

func fileFaults() []fault {
	var picture bytes.Buffer
	if err := jpeg.Encode(&picture, image.NewGray(image.Rect(0, 0, 8, 8)), nil); err != nil {
		panic(err) // cannot fail: the encoder writes into memory
	}
	none := func(*harness) {}
	replied := []string{"replied"}
	const (
		voice = "OggS\x00\x02\x00\x00voice\xff\xfe"
		lost  = "I could not get the file notes.txt: "
	)
	return []fault{
		{
			sentence: "a photo goes to the model as an image",
			play: postFile(telegram.Media{Kind: telegram.Photo, Data: picture.Bytes()}, "echo: look", func(w *harness) {
				if !slices.ContainsFunc(w.newestRequest().Last().Blocks, func(b llm.Block) bool { return b.Type == "image" }) {
					w.Errorf("the model was given %+v", w.newestRequest().Last())
				}
				if n := w.tg.Recorder().Counts().ByMethod["file"]; n != 1 {
					w.Errorf("%d downloads", n)
				}
			}),
			shows: []string{"echo: look"}, ends: replied,
		},
		{
			sentence: "a text document goes to the model as text",
			play: postFile(telegram.Media{Kind: telegram.Document, Name: "notes.txt", MIME: "text/plain", Data: []byte("buy milk")}, "buy milk", func(w *harness) {
				w.fault.shows = []string{"echo: " + w.newestRequest().Newest()}
			}),
			ends: replied,
		},
		{
			sentence: "a voice message goes to the model as a path",
			play:     postFile(telegram.Media{Kind: telegram.Voice, MIME: "audio/ogg", Seconds: 3, Data: []byte(voice)}, "stored at", checkStoredFile(voice)),
			ends:     replied,
		},
		{
			sentence: "a file over 20 MB is said in words, and the message is answered without it",
			play:     postFile(telegram.Media{Kind: telegram.Document, Name: "big.bin", Size: 25 << 20, Data: []byte("x")}, "echo: look", none),
			shows: []string{
				"I could not get the file big.bin: the file is larger than 20 MB, the most a bot can download from Telegram.",
				`echo: look` + "\n" + `[file "big.bin" could not be had: "I could not get the file big.bin: the file is larger than 20 MB, the most a bot can download from Telegram."]`,
			},
			ends: replied,
			logs: []string{"warn cannot fetch file"},
		},
		{
			sentence: "a download that fails is said in words, and the message is answered without it",
			play: func(w *harness) {
				w.tg.Inject(telegram.Fault{Method: "file", Kind: telegram.Fail, Status: 500})
				postFile(telegram.Media{Kind: telegram.Document, Name: "notes.txt", MIME: "text/plain", Data: []byte("buy milk")}, "echo: look", none)(w)
			},
			loose: true, // the preview of the answer may be older than the notice
			shows: []string{
				lost + "the server answers 500 instead of the file.",
				`echo: look` + "\n" + `[file "notes.txt" could not be had: "` + lost + `the server answers 500 instead of the file."]`,
			},
			ends: replied,
			logs: []string{"warn cannot fetch file"},
		},
		{
			sentence: "a file that Telegram no longer has is said in words, and the message is answered without it",
			play: func(w *harness) {
				w.tg.Inject(telegram.Fault{Method: "getFile", Kind: telegram.Fail, Status: 400, Description: "Bad Request: invalid file_id"})
				postFile(telegram.Media{Kind: telegram.Document, Name: "notes.txt", MIME: "text/plain", Data: []byte("buy milk")}, "echo: look", none)(w)
			},
			loose: true, // the preview of the answer may be older than the notice
			shows: []string{
				lost + "the file is no longer at Telegram.",
				`echo: look` + "\n" + `[file "notes.txt" could not be had: "` + lost + `the file is no longer at Telegram."]`,
			},
			ends: replied,
			logs: []string{"warn cannot fetch file"},
		},
	}
}
