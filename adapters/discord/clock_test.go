package discord_test

import (
	"net/http"
	"testing"
	"time"

	"hermesd/adapters/discord"
	"hermesd/gateway/chat"
)

// yesterday is a platform whose clock is a day behind ours, and that has a bad day.
type yesterday struct{}

func (yesterday) RoundTrip(*http.Request) (*http.Response, error) {
	date := time.Now().Add(-24 * time.Hour).UTC().Format(http.TimeFormat)
	return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{"Date": {date}}, Body: http.NoBody}, nil
}

func TestThePlatformTellsByHowMuchOurClockIsAhead(t *testing.T) {
	a, err := discord.New(discord.Config{Token: "MTA5.unreal.unreal"}, discord.Options{Transport: yesterday{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Send(t.Context(), chat.Outbound{ID: "o1", To: chat.Address{Platform: chat.Discord, Kind: chat.DM, Chat: "1"}, Text: chat.PlainText("hello")}); err == nil {
		t.Error("it is sent")
	}
	if got := a.Health().ClockAhead.Round(time.Hour); got != 24*time.Hour {
		t.Errorf("ahead by %v", got)
	}
}
