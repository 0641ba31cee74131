package slack_test

import (
	"net/http"
	"testing"
	"time"

	"hermesd/adapters/slack"
	"hermesd/gateway/chat"
)

// yesterday is a platform whose clock is a day behind ours, and that has a bad day.
type yesterday struct{}

func (yesterday) RoundTrip(*http.Request) (*http.Response, error) {
	date := time.Now().Add(-24 * time.Hour).UTC().Format(http.TimeFormat)
	return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{"Date": {date}}, Body: http.NoBody}, nil
}

func TestThePlatformTellsByHowMuchOurClockIsAhead(t *testing.T) {
	a, err := slack.New(slack.Config{Token: "xoxb-unreal", AppToken: "xapp-1-A0-unreal"}, slack.Options{Transport: yesterday{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Send(t.Context(), chat.Outbound{ID: "o1", To: chat.Address{Platform: chat.Slack, Kind: chat.DM, Chat: "1"}, Text: chat.PlainText("hello")}); err == nil {
		t.Error("it is sent")
	}
	if got := a.Health().ClockAhead.Round(time.Hour); got != 24*time.Hour {
		t.Errorf("ahead by %v", got)
	}
}
