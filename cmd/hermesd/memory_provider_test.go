package main

import (
	"strings"
	"testing"
	"time"

	"hermesd/gateway/memory"
)

func TestMemoryStatusNamesEarlierIdentities(t *testing.T) {
	s := memory.Status{Provider: "mem0", Up: true, Breaker: "closed"}
	if text := memoryStatusText(s, time.Now()); strings.Contains(text, "earlier") {
		t.Errorf("without one:\n%s", text)
	}
	s.Earlier = []string{"slack-U1", "telegram-9"}
	want := "\nearlier   slack-U1, telegram-9: what owners said before they were owners; `hermesd memory forget --person NAME` deletes it there\n"
	if text := memoryStatusText(s, time.Now()); !strings.Contains(text, want) {
		t.Errorf("got\n%s", text)
	}
}
