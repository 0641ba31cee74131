package discord_test

import (
	"fmt"
	"net/http"

	"github.com/bwmarrin/discordgo"

	"hermesd/internal/sim/discord"
)

// The example shows a guild with a bot and a person, a message, and the
// messages in the channel.
func Example() {
	s := discord.New(discord.Options{})
	defer s.Close()
	bot := s.AddBot(discord.BotOptions{Name: "demo"})
	ann := s.AddUser("ann")
	g := s.AddGuild("home", ann)
	g.Join(bot.User())
	ch := g.AddChannel(discord.ChannelOptions{Name: "general"})
	ch.Say(ann, "hello "+discord.Token(1))

	s.Inject(discord.Fault{Route: discord.RouteCreateMessage, Kind: discord.CutAfter})
	client, err := discordgo.New("Bot " + bot.Token())
	if err != nil {
		panic(err)
	}
	web := discord.Transport(s.Dial) // or s.DialLoopback after s.Start
	defer web.CloseIdleConnections()
	client.Client, client.Dialer = &http.Client{Transport: web}, discord.Websocket(s.Dial)
	for range 2 { // a bot that remembers nothing of the first round
		_, _ = client.ChannelMessageSend(ch.ID(), "hi "+discord.Token(1))
	}
	fmt.Println(discord.Judge{}.Judge(s))
	// Output: 1 offered, 1 answered, 0 lost, 1 doubled, 0 repeats, 0 out of order, 0 stray; doubled: #m1#, 2 answers
}
