package slack_test

import (
	"context"
	"errors"
	"fmt"

	slackgo "github.com/slack-go/slack"
	"github.com/slack-go/slack/slackevents"
	"github.com/slack-go/slack/socketmode"

	"hermesd/internal/sim/slack"
)

// The example uses a workspace, an app and a person; slack-go connects in
// memory, acknowledges and answers.
func Example() {
	s := slack.New(slack.Options{})
	defer s.Close()
	team := s.AddTeam("Acme")
	bot := s.AddApp(slack.AppOptions{}).Install(team)
	ann := team.AddUser(slack.Person{Name: "ann"})
	dm := ann.DM(bot)

	// Over the network: call s.Start() and omit OptionHTTPClient and
	// OptionDialer.
	api := slackgo.New(bot.Token(), slackgo.OptionAppLevelToken(bot.App().Token()),
		slackgo.OptionAPIURL(s.APIURL()), slackgo.OptionHTTPClient(s.Client()))
	app := socketmode.New(api, socketmode.OptionDialer(s.Dialer()))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- app.RunContext(ctx) }()

	dm.Say(ann, "hello") // even before the app is connected: the event is sent again
	for e := range app.Events {
		event, ok := e.Data.(slackevents.EventsAPIEvent)
		if !ok {
			continue
		}
		_ = app.Ack(*e.Request)
		if m, ok := event.InnerEvent.Data.(*slackevents.MessageEvent); ok && m.BotID == "" {
			_, _, _ = api.PostMessageContext(ctx, m.Channel, slackgo.MsgOptionText("hi", false))
			break
		}
	}
	_ = s.Recorder().WaitFor(ctx, func(l *slack.Recorder) bool { return !l.Offers("message")[0].Acked.IsZero() })
	stop()
	fmt.Println(errors.Is(<-ended, context.Canceled))
	for _, m := range dm.Messages() {
		fmt.Println(m.User == ann.ID(), m.Shown())
	}
	// Output:
	// true
	// true hello
	// false hi
}
