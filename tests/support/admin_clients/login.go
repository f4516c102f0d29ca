package main

import (
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"hash"
	"os"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	xdg "github.com/xdg-go/scram"
)

// login says how a client connects. Certificate is a file with a chain and its key.
type login struct {
	Authority   string `json:"authority"`
	Certificate string `json:"certificate"`
	Mechanism   string `json:"mechanism"`
	User        string `json:"user"`
	Password    string `json:"password"`
	AccessToken string `json:"token"`
}

// tls returns nil without TLS.
func (l login) tls() *tls.Config {
	if l.Authority == "" {
		return nil
	}
	authority, err := os.ReadFile(l.Authority)
	must(err)
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM(authority) {
		must(errors.New("no certificate in " + l.Authority))
	}
	if l.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(l.Certificate, l.Certificate)
		must(err)
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

func (l login) franz(address string) []kgo.Opt {
	options := []kgo.Opt{kgo.SeedBrokers(address)}
	if config := l.tls(); config != nil {
		options = append(options, kgo.DialTLSConfig(config))
	}
	switch l.Mechanism {
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: l.User, Pass: l.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(scram.Auth{User: l.User, Pass: l.Password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(scram.Auth{User: l.User, Pass: l.Password}.AsSha512Mechanism()))
	case "OAUTHBEARER":
		options = append(options, kgo.SASL(oauth.Auth{Token: l.AccessToken}.AsMechanism()))
	}
	return options
}

func (l login) sarama(version sarama.KafkaVersion) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = version
	config.Net.TLS.Config = l.tls()
	config.Net.TLS.Enable = config.Net.TLS.Config != nil
	config.Net.SASL.Enable = l.Mechanism != ""
	config.Net.SASL.Mechanism = sarama.SASLMechanism(l.Mechanism)
	config.Net.SASL.User, config.Net.SASL.Password = l.User, l.Password
	config.Net.SASL.TokenProvider = l
	config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
		if l.Mechanism == "SCRAM-SHA-256" {
			return &scramClient{hash: sha256.New}
		}
		return &scramClient{hash: sha512.New}
	}
	return config
}

// Token makes a login a sarama.AccessTokenProvider.
func (l login) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: l.AccessToken}, nil
}

// scramClient is the one of Sarama's own example.
type scramClient struct {
	hash         func() hash.Hash
	conversation *xdg.ClientConversation
}

func (s *scramClient) Begin(user, password, authorizationID string) error {
	client, err := xdg.HashGeneratorFcn(s.hash).NewClient(user, password, authorizationID)
	if err == nil {
		s.conversation = client.NewConversation()
	}
	return err
}

func (s *scramClient) Step(challenge string) (string, error) {
	return s.conversation.Step(challenge)
}

func (s *scramClient) Done() bool {
	return s.conversation.Done()
}
