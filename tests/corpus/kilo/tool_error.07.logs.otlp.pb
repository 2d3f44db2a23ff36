
ή
Ί
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
7.7.7


opencode	Info	>ιαµcμY>ιαµcμ2
fiberIdΡ*F*D

loop
:
8{"session.id":"ses_ddae0313effeC5qKJ13LJhvcOA","step":1}J”υ΄f²»i5M	β¬BίJR<i&C`r