
Ã	
º
'
deployment.environment.name
latest

opencode.client
cli

opencode.run

ea94fb20
!
service.instance.id

ea94fb20

service.name

opencode

service.version
7.7.7ƒ


opencode¶	‘F’cì	Info*m*k
	
process
^
\{"session.id":"ses_ddae0313effeC5qKJ13LJhvcOA","messageID":"msg_22520896e001B4w5W6hw7xQVjA"}2
fiberIdŸÑJ”õ´f²»i5M	â¬BßJRÈµ"”’°ÊY‘F’cìç	ücì	Info**š

stream

Š{"providerID":"stub","modelID":"stub-model","session.id":"ses_ddae0313effeC5qKJ13LJhvcOA","small":"false","agent":"code","mode":"primary"}2
fiberIdŸÑJ”õ´f²»i5M	â¬BßJRhçüBDŸŒYücì®	0$¨cì	Info*e*c

llm runtime selected
I
G{"llm.runtime":"ai-sdk","llm.provider":"stub","llm.model":"stub-model"}2
fiberIdŸÑJ”õ´f²»i5M	â¬BßJRhçüBDŸŒY0$¨cì	ñÒÃ)cì	Info*F*D

loop
:
8{"session.id":"ses_ddae0313effeC5qKJ13LJhvcOA","step":2}2
fiberIdŸÑJ”õ´f²»i5M	â¬BßJR<i&C`rYñÒÃ)cì	cóÑ)cì	Info*E*C

exiting loop
1
/{"session.id":"ses_ddae0313effeC5qKJ13LJhvcOA"}2
fiberIdŸÑJ”õ´f²»i5M	â¬BßJR<i&C`rYcóÑ)cì~	ø¸ê*cì	Info*5*3

disposing instance

{"directory":"/app/work"}2
fiberId­ÕJñµ+ü-bQ#pÌûyRší-ıl#·-Yø¸ê*cì