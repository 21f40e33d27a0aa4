"""Mail by SMTP, as text and HTML; a repeat carries the same Message-ID."""

from smtplib import SMTPException, SMTPRecipientsRefused, SMTPResponseException

from django.conf import settings
from django.core.mail import EmailMultiAlternatives, get_connection

from controlplane.decisions.deliveries import Failure
from controlplane.notify.base import ChannelType, Message, Sent, Target, Undelivered, rendered

TIMEOUT_S = 10
NOT_SET = "Set HEADWORKS_SMTP_URL on the host, and HEADWORKS_MAIL_FROM to the sender."


def lacking() -> str:
    return NOT_SET if settings.HEADWORKS.mail_server is None else ""


def message_id_of(message: Message) -> str:
    """The same for every attempt: made of the message's own id."""
    return f"<{message.id}@{settings.HEADWORKS.mail_from.rpartition('@')[2]}>"


def mail_of(target: Target, message: Message) -> EmailMultiAlternatives:
    """The mail; a title can't break out of its header, for line breaks are refused there."""
    mail = EmailMultiAlternatives(
        subject=" ".join(str(message.content["title"]).split()),
        body=rendered("email/message.txt", message),
        from_email=settings.HEADWORKS.mail_from,
        to=list(target.recipients),
        headers={"Message-ID": message_id_of(message), "Auto-Submitted": "auto-generated"},
    )
    mail.attach_alternative(rendered("email/message.html", message), "text/html")
    return mail


def send(target: Target, message: Message) -> Sent:
    """Hand the mail to the server."""
    server = settings.HEADWORKS.mail_server
    if server is None:
        raise Undelivered(Failure(NOT_SET, is_final=True))
    connection = get_connection(
        "django.core.mail.backends.smtp.EmailBackend",
        host=server.host,
        port=server.port,
        username=server.user,
        password=server.password,
        use_ssl=server.is_tls,
        use_tls=server.is_starttls,
        timeout=TIMEOUT_S,
        fail_silently=False,
    )
    try:
        connection.send_messages([mail_of(target, message)])
    except SMTPRecipientsRefused as error:
        codes = [code for code, _ in error.recipients.values()]
        raise Undelivered(_refused(min(codes), "The server takes no mail for them")) from error
    except SMTPResponseException as error:
        raise Undelivered(_refused(error.smtp_code, "The server refused the mail")) from error
    except (SMTPException, OSError) as error:
        # only the kind: the message may name users
        told = f"The mail server can't be reached: {type(error).__name__}."
        raise Undelivered(Failure(told)) from error
    return Sent(250)


def _refused(code: int, words: str) -> Failure:
    """4xx is for now, 5xx for good."""
    return Failure(f"{words}: {code}.", code, is_final=code >= 500)


CHANNEL = ChannelType(
    label="E-mail",
    needs=frozenset({"recipients"}),
    takes=frozenset({"recipients"}),
    send=send,
    lacking=lacking,
    takes_repeats=True,
)
