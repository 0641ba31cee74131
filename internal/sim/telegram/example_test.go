package telegram_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"hermesd/internal/sim/telegram"
)

// The example uses a bot, a person, a message, and an answer that is lost in
// transit.
func Example() {
	s := telegram.New(telegram.Options{})
	defer s.Close()
	address, err := s.Start() // or s.Transport(), for a synctest bubble
	if err != nil {
		panic(err)
	}
	bot := s.AddBot(telegram.BotOptions{Username: "demo_bot"})
	ann := s.AddUser(telegram.Person{FirstName: "Ann"})
	dm := ann.Chat(bot)
	dm.Say(ann, "hello "+telegram.Token(1))

	s.Inject(telegram.Fault{Method: "sendMessage", Kind: telegram.CutAfter})
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range 2 { // a bot that remembers nothing of the first round
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, address+"/bot"+bot.Token()+"/sendMessage?"+
			url.Values{"chat_id": {fmt.Sprint(dm.ID())}, "text": {"hi " + telegram.Token(1)}}.Encode(), http.NoBody)
		if err != nil {
			panic(err)
		}
		req.Method = http.MethodPost // the transport never repeats a POST by itself
		if resp, err := web.Do(req); err == nil {
			_ = resp.Body.Close()
		}
	}
	fmt.Println(telegram.Judge{}.Judge(s))
	// Output: 1 offered, 1 answered, 0 lost, 1 doubled, 0 repeats, 0 out of order, 0 stray; doubled: #m1# in 100001, message 1, answers [2 3]
}
